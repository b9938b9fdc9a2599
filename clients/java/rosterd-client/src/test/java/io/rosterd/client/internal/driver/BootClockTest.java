package io.rosterd.client.internal.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Instant;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

class BootClockTest {
    private static final long SECOND = 1_000_000_000L;

    private static final class Scripted implements BootClock.Clocks {
        long mono = 5 * SECOND;
        OptionalLong uptime = OptionalLong.of(100 * SECOND);
        Instant wall = Instant.EPOCH;

        void pass(long nanos) {
            mono += nanos;
            sleep(nanos);
        }

        void sleep(long nanos) {
            wall = wall.plusNanos(nanos);
            if (uptime.isPresent()) uptime = OptionalLong.of(uptime.getAsLong() + nanos);
        }

        @Override
        public long mono() {
            return mono;
        }

        @Override
        public OptionalLong uptime() {
            return uptime;
        }

        @Override
        public Instant wall() {
            return wall;
        }
    }

    @Test
    void aSleepOfTheMachineIsTime() {
        Scripted clocks = new Scripted();
        BootClock clock = new BootClock(clocks);
        clocks.pass(SECOND);
        assertEquals(SECOND, clock.boot());
        clocks.sleep(7 * SECOND);
        assertEquals(8 * SECOND, clock.boot());
        clocks.pass(SECOND);
        assertEquals(9 * SECOND, clock.boot());
    }

    @Test
    void aCalendarThatIsSetIsNot() {
        Scripted clocks = new Scripted();
        BootClock clock = new BootClock(clocks);
        clocks.wall = clocks.wall.plusSeconds(3600);
        assertEquals(0, clock.boot());
        clocks.wall = clocks.wall.minusSeconds(7200);
        assertEquals(0, clock.boot());
    }

    @Test
    void withoutAnUptimeACalendarThatJumpsAheadCounts() {
        Scripted clocks = new Scripted();
        clocks.uptime = OptionalLong.empty();
        BootClock clock = new BootClock(clocks);
        clocks.sleep(7 * SECOND);
        assertEquals(7 * SECOND, clock.boot());
        clocks.wall = clocks.wall.minusSeconds(3600);
        assertEquals(7 * SECOND, clock.boot());
    }

    @Test
    void theMachinesOwnClocksGoForward() throws InterruptedException {
        BootClock clock = new BootClock();
        long before = clock.boot();
        Thread.sleep(2);
        assertTrue(clock.boot() > before);
    }
}
