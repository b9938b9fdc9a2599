package io.rosterd.client;

import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.TextMapGetter;
import java.util.Map;

/** Makes a run's trace the current one of its thread. Loaded only if OpenTelemetry's API is there. */
final class TraceScope {
    private static final TextMapGetter<Map<String, String>> FIELDS = new TextMapGetter<>() {
        @Override
        @SuppressWarnings("deprecation") // Still abstract in versions in use.
        public Iterable<String> keys(Map<String, String> carrier) {
            return carrier.keySet();
        }

        @Override
        public String get(Map<String, String> carrier, String key) {
            return carrier == null ? null : carrier.get(key);
        }
    };

    private TraceScope() {}

    /** Enters the trace. Returns how to leave it. */
    static Runnable enter(Map<String, String> context) {
        Scope scope = W3CTraceContextPropagator.getInstance()
                .extract(Context.current(), context, FIELDS)
                .makeCurrent();
        return scope::close;
    }
}
