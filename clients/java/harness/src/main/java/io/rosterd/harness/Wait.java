package io.rosterd.harness;

import java.time.Duration;
import java.util.concurrent.Callable;

/** Waits for a state, with a deadline. */
public final class Wait {
    /** The longest that anything may take. */
    public static final Duration PATIENCE = Duration.ofSeconds(60);

    private static final long PAUSE_MILLISECONDS = 10;

    private Wait() {}

    /**
     * Waits for a state.
     *
     * @param what the state, for people
     * @param state whether it has been reached
     */
    public static void until(String what, Callable<Boolean> state) {
        long deadline = System.nanoTime() + PATIENCE.toNanos();
        try {
            while (!state.call()) {
                if (System.nanoTime() > deadline) throw new AssertionError("not within " + PATIENCE + ": " + what);
                Thread.sleep(PAUSE_MILLISECONDS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new AssertionError("interrupted while waiting for " + what, interrupted);
        } catch (Exception failed) {
            throw new AssertionError("while waiting for " + what, failed);
        }
    }
}
