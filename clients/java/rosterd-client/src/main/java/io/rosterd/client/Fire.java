package io.rosterd.client;

import java.time.Instant;

/**
 * One scheduled execution of a job: all its items.
 *
 * @param job the job's name
 * @param fireTime the scheduled time
 */
public record Fire(String job, Instant fireTime) {}
