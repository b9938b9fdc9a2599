package io.rosterd.client;

import java.util.List;
import java.util.Map;
import org.slf4j.MDC;

/** What a handler's thread carries: the run's ids in SLF4J's MDC, and its trace if OpenTelemetry's API is there. */
final class RunContext implements AutoCloseable {
    private static final List<String> KEYS =
            List.of("rosterd.job", "rosterd.item", "rosterd.token", "rosterd.instance");
    private static final boolean TRACED = isPresent("io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator");

    private final Runnable leaveTrace;

    private RunContext(Runnable leaveTrace) {
        this.leaveTrace = leaveTrace;
    }

    static RunContext enter(Run run) {
        MDC.put(KEYS.get(0), run.job());
        MDC.put(KEYS.get(1), Integer.toString(run.item()));
        MDC.put(KEYS.get(2), Long.toString(run.token()));
        MDC.put(KEYS.get(3), run.instanceId());
        Map<String, String> context = run.traceContext();
        return new RunContext(TRACED && !context.isEmpty() ? TraceScope.enter(context) : () -> {});
    }

    @Override
    public void close() {
        KEYS.forEach(MDC::remove);
        leaveTrace.run();
    }

    private static boolean isPresent(String name) {
        try {
            Class.forName(name, false, RunContext.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError absent) {
            return false;
        }
    }
}
