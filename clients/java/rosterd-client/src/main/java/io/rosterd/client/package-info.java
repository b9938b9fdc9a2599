/**
 * Workers for rosterd, a distributed scheduler for sharded cron jobs.
 *
 * <p>Four nouns: a {@link io.rosterd.client.Worker}, made by a {@link io.rosterd.client.WorkerBuilder} with its options, works for
 * jobs, each a {@link io.rosterd.client.Handler} or a {@link io.rosterd.client.Dataflow} with its
 * {@link io.rosterd.client.JobOptions}; each execution is a {@link io.rosterd.client.Run}.
 */
package io.rosterd.client;
