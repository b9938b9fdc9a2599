package io.rosterd.client.internal.machine;

import java.time.Instant;

/**
 * One moment on both clocks.
 *
 * @param boot nanoseconds of a clock that is never set and goes on while the machine sleeps: for leases and timers
 * @param wall for people, and for comparison with the coordinator's times
 */
public record Now(long boot, Instant wall) {}
