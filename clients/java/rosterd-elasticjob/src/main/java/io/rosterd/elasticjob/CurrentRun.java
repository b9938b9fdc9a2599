package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import java.util.Optional;

/**
 * The run that the calling thread works for: what Elastic-Job's {@code ShardingContext} has no field for.
 *
 * <pre>{@code
 * public void execute(ShardingContext context) {
 *     long token = CurrentRun.get().orElseThrow().token(); // refuse late writers by it
 * }
 * }</pre>
 *
 * <p>It is available in {@code execute}, {@code fetchData} and {@code processData}, on the thread that calls them.
 */
public final class CurrentRun {
    private static final ThreadLocal<Run> CURRENT = new ThreadLocal<>();

    private CurrentRun() {}

    /** {@return the run; empty outside of one} */
    public static Optional<Run> get() {
        return Optional.ofNullable(CURRENT.get());
    }

    static void set(Run run) {
        CURRENT.set(run);
    }

    static void clear() {
        CURRENT.remove();
    }
}
