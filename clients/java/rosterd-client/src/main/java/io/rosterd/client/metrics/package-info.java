/** Metrics for programs that have Micrometer. */
package io.rosterd.client.metrics;
