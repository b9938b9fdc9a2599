package io.rosterd.client.internal.driver;

import io.rosterd.client.internal.machine.Now;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.OptionalLong;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The only file that reads a clock: one that nobody sets and that goes on while the machine sleeps, so that a lease ends then
 * too.
 *
 * <p>Java has no such clock: {@link System#nanoTime()} stands still during a suspend on Linux and macOS. This class adds how far
 * the system's uptime is ahead of it. Without {@code /proc/uptime} (not on Linux), a wall clock that jumps ahead by a second
 * counts as a sleep: that ends a lease too soon if somebody set the clock, and a shorter sleep goes unnoticed.
 */
public final class BootClock {
    /** Shorter sleeps are ignored: uptime has coarse steps, and the lease has room for drift. */
    private static final long SHORTEST_SLEEP = 50_000_000L;
    /** How long to trust the clock that sleeps without a comparison with the one that does not. */
    private static final long LOOK_EVERY = 250_000_000L;
    /** Without an uptime. */
    private static final long SHORTEST_JUMP = 1_000_000_000L;

    /** The clocks of the machine. */
    public interface Clocks {
        /** {@return nanoseconds, standing still while the machine sleeps} */
        long mono();

        /** {@return nanoseconds, going on while the machine sleeps, in coarse steps; empty: there is no such clock} */
        OptionalLong uptime();

        /** {@return the wall clock, which may be set} */
        Instant wall();
    }

    private final Clocks clocks;
    private final long origin;
    private final boolean hasUptime;
    private final long ahead;
    private final AtomicLong slept = new AtomicLong();
    private volatile long lookedAt;
    private volatile long wallAhead;

    /** The machine's clocks. */
    public BootClock() {
        this(new OfMachine());
    }

    /**
     * With clocks of a test.
     *
     * @param clocks the clocks
     */
    public BootClock(Clocks clocks) {
        this.clocks = clocks;
        origin = clocks.mono();
        lookedAt = origin;
        wallAhead = wallNanos() - origin;
        hasUptime = clocks.uptime().isPresent();
        // The quickest of three readings: a process that is held up between two clocks sees them further apart.
        long most = Long.MIN_VALUE;
        for (int look = 0; hasUptime && look < 3; look++) {
            most = Math.max(most, clocks.uptime().orElse(0) - clocks.mono());
        }
        ahead = most;
    }

    /** {@return nanoseconds since this clock was made} */
    public long boot() {
        long mono = clocks.mono();
        lookAfterSleep(mono);
        return mono - origin + slept.get();
    }

    /** {@return both clocks} */
    public Now now() {
        return new Now(boot(), clocks.wall());
    }

    private void lookAfterSleep(long mono) {
        long apart = wallNanos() - mono;
        long jump = apart - wallAhead;
        if (mono - lookedAt < LOOK_EVERY && Math.abs(jump) < SHORTEST_SLEEP) return;
        lookedAt = mono;
        wallAhead = apart;
        if (!hasUptime) {
            if (jump >= SHORTEST_JUMP) slept.addAndGet(jump);
            return;
        }
        long known = slept.get();
        long more = clocks.uptime().orElse(0) - clocks.mono() - ahead - known;
        // Another thread may have found the same sleep just now.
        if (more >= SHORTEST_SLEEP) slept.compareAndSet(known, known + more);
    }

    private long wallNanos() {
        Instant wall = clocks.wall();
        return wall.getEpochSecond() * 1_000_000_000L + wall.getNano();
    }

    private static final class OfMachine implements Clocks {
        private static final Path UPTIME = Path.of("/proc/uptime");

        @Override
        public long mono() {
            return System.nanoTime();
        }

        @Override
        public OptionalLong uptime() {
            try {
                String text = new String(Files.readAllBytes(UPTIME), StandardCharsets.US_ASCII);
                String seconds = text.substring(0, text.indexOf(' '));
                return OptionalLong.of((long) (Double.parseDouble(seconds) * 1e9));
            } catch (IOException | RuntimeException absent) {
                return OptionalLong.empty();
            }
        }

        @Override
        public Instant wall() {
            return Instant.now();
        }
    }
}
