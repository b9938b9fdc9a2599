package io.rosterd.elasticjob;

import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.rosterd.client.Run;
import java.util.Map;
import org.slf4j.MDC;

/**
 * Context that the client has set on the thread of a run's handler, for the pool thread that runs the item: the ids for log lines
 * and, if OpenTelemetry is there, the trace. Also the run itself, and the class loader of the program.
 */
final class Carried {
    private static final boolean TRACES = isPresent("io.opentelemetry.context.Context");

    private final Run run;
    private final ClassLoader loader;
    private final Map<String, String> ids = MDC.getCopyOfContextMap();
    private final Object trace = TRACES ? Traces.current() : null;

    private Carried(Run run, ClassLoader loader) {
        this.run = run;
        this.loader = loader;
    }

    /** Takes the context of the calling thread. */
    static Carried of(Run run, ClassLoader loader) {
        return new Carried(run, loader);
    }

    /** User code, which may throw anything. */
    @FunctionalInterface
    interface Action {
        void run() throws Throwable;
    }

    /** Runs an action with it on the calling thread, and then restores the thread's own. */
    void within(Action action) throws Throwable {
        Thread thread = Thread.currentThread();
        ClassLoader loaderBefore = thread.getContextClassLoader();
        Map<String, String> idsBefore = MDC.getCopyOfContextMap();
        thread.setContextClassLoader(loader);
        if (ids != null) ids.forEach(MDC::put);
        CurrentRun.set(run);
        try {
            if (trace == null) action.run();
            else Traces.within(trace, action);
        } finally {
            CurrentRun.clear();
            if (ids != null) ids.keySet().forEach(MDC::remove);
            if (idsBefore != null) MDC.setContextMap(idsBefore);
            thread.setContextClassLoader(loaderBefore);
        }
    }

    private static boolean isPresent(String name) {
        try {
            Class.forName(name, false, Carried.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException absent) {
            return false;
        }
    }

    /** Separate, so that it is loaded only if OpenTelemetry is there. */
    private static final class Traces {
        private Traces() {}

        static Object current() {
            return Context.current();
        }

        static void within(Object trace, Action action) throws Throwable {
            try (Scope ignored = ((Context) trace).makeCurrent()) {
                action.run();
            }
        }
    }
}
