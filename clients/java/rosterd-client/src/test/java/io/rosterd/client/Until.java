package io.rosterd.client;

import java.util.concurrent.Callable;

/** Waits for states, with a deadline. */
final class Until {
    static final long PATIENCE_SECONDS = 60;

    private Until() {}

    static void until(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + PATIENCE_SECONDS * 1_000_000_000L;
        while (!condition.call()) {
            if (System.nanoTime() > end) throw new AssertionError(what + ": the state does not come");
            Thread.sleep(5);
        }
    }
}
