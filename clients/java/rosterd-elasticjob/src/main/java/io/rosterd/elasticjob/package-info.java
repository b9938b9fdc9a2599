/**
 * Jobs that were written for Elastic-Job 3, as they are, on a rosterd coordinator.
 *
 * <p>A program replaces {@code ZookeeperRegistryCenter} by {@link io.rosterd.elasticjob.RosterdRegistryCenter} and the imports of
 * the two bootstraps; job classes, listeners, error handlers and thread pools are those of the released Elastic-Job, and its own
 * item executors call them. What is scheduled, where an item runs and what becomes of it after a crash is the coordinator's.
 */
package io.rosterd.elasticjob;
