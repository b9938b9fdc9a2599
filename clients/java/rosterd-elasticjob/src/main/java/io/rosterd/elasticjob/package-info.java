/**
 * Runs jobs that were written for Elastic-Job 3, unchanged, on a rosterd coordinator.
 *
 * <p>A program replaces {@code ZookeeperRegistryCenter} by {@link io.rosterd.elasticjob.RosterdRegistryCenter} and the imports of
 * the two bootstraps; job classes, listeners, error handlers and thread pools are those of the released Elastic-Job, and its own
 * item executors call them. The coordinator schedules jobs, decides where an item runs, and handles crashes.
 */
package io.rosterd.elasticjob;
