package io.rosterd.client;

import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * SIGTERM and SIGINT: leave in order; a second one: exit immediately. If the JVM exits for another reason, a shutdown
 * hook makes the worker leave in order too.
 *
 * <p>Signals are handled through {@code sun.misc.Signal}, since the JVM's own handling begins with its shutdown hooks, all at a time:
 * those of the program would close what handlers still use, and a second signal would do nothing. If that class is absent, or the
 * JVM was started with {@code -Xrs}, the shutdown hook alone is left.
 */
final class Signals {
    private static final Logger LOG = LoggerFactory.getLogger(Worker.class);
    /** Supervisors signal a process and its group: signals this soon after the first repeat it. */
    private static final long ONE_REQUEST = 1_000_000_000L;
    /** How long an exit that a signal requests may take to begin. */
    private static final long EXIT_BEGINS = 2_000_000_000L;

    private static final Map<String, Integer> NUMBERS = Map.of("TERM", 15, "INT", 2);

    /** What signals ask of the worker. */
    interface Target {
        /** A signal asks it to leave. */
        void signalled();

        /** The JVM exits: leave, and return once that is done. */
        void exiting();
    }

    private final Target target;
    // The previous handler of each signal.
    private final Map<String, Object> before = new LinkedHashMap<>();
    private final Thread hook;
    private boolean came;
    private long firstAt;
    private String first;

    Signals(Target target) {
        this.target = target;
        hook = new Thread(target::exiting, "rosterd-exit");
    }

    void listen() {
        for (String name : NUMBERS.keySet()) {
            try {
                before.put(name, handle(name, handlerOf(name)));
            } catch (ReflectiveOperationException | RuntimeException absent) {
                LOG.debug("SIG{} cannot be handled, the shutdown hook has to do: {}", name, absent.toString());
            }
        }
        try {
            Runtime.getRuntime().addShutdownHook(hook);
        } catch (IllegalStateException exiting) {
            LOG.debug("the JVM exits already");
        }
    }

    void ignore() {
        before.forEach((name, handler) -> {
            try {
                handle(name, handler);
            } catch (ReflectiveOperationException | RuntimeException unchanged) {
                LOG.debug("SIG{} stays with the worker: {}", name, unchanged.toString());
            }
        });
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException exiting) {
            // It has begun, and ends by itself.
        }
    }

    /**
     * Passes the received signal to its previous handler. The JVM handles its own on a thread that does not keep it
     * alive: if the caller is the last thread that does, it stays until the exit has begun, or the JVM would end as if
     * there had been no signal.
     */
    void passOn() throws InterruptedException {
        synchronized (this) {
            if (!came) return;
        }
        CountDownLatch exits = new CountDownLatch(1);
        Thread begun = new Thread(exits::countDown, "rosterd-exit-begun");
        try {
            Runtime.getRuntime().addShutdownHook(begun);
            Object signal = signalOf(first);
            signal.getClass().getMethod("raise", signal.getClass()).invoke(null, signal);
            // The previous handler may do something else than exit.
            if (!exits.await(EXIT_BEGINS, TimeUnit.NANOSECONDS))
                Runtime.getRuntime().removeShutdownHook(begun);
        } catch (ReflectiveOperationException | IllegalArgumentException impossible) {
            LOG.warn("SIG{} cannot be passed on: {}", first, impossible.toString());
        } catch (IllegalStateException exiting) {
            LOG.debug("the JVM exits already");
        }
    }

    private synchronized void signalled(String name) {
        long now = System.nanoTime();
        if (!came) {
            came = true;
            firstAt = now;
            first = name;
            target.signalled();
        } else if (now - firstAt >= ONE_REQUEST) {
            LOG.warn("second signal received: exiting immediately; runs in flight are recorded as crashed");
            Runtime.getRuntime().halt(128 + NUMBERS.get(name));
        }
    }

    // ---- by reflection: the compiler warns of this class, and the warning cannot be suppressed

    private Object handlerOf(String name) throws ClassNotFoundException {
        Class<?> type = Class.forName("sun.misc.SignalHandler");
        return Proxy.newProxyInstance(
                Signals.class.getClassLoader(),
                new Class<?>[] {type},
                (proxy, method, given) -> switch (method.getName()) {
                    case "handle" -> {
                        signalled(name);
                        yield null;
                    }
                    case "equals" -> proxy == given[0];
                    case "hashCode" -> System.identityHashCode(proxy);
                    default -> "rosterd's handler of SIG" + name;
                });
    }

    private static Object signalOf(String name) throws ReflectiveOperationException {
        return Class.forName("sun.misc.Signal").getConstructor(String.class).newInstance(name);
    }

    private static Object handle(String name, Object handler) throws ReflectiveOperationException {
        Object signal = signalOf(name);
        Class<?> type = Class.forName("sun.misc.SignalHandler");
        return signal.getClass().getMethod("handle", signal.getClass(), type).invoke(null, signal, handler);
    }
}
