/**
 * Writes that a replaced run can no longer do: each carries the run's fencing token, and the store refuses it once it
 * has seen a higher one.
 *
 * <p>The lease makes two runs of an item at a time rare. A process that was frozen in the middle of a write can still
 * resume after its lease: only the store can detect that. These classes need only the client library that the program
 * has anyway. Their formats are the same in all languages.
 */
package io.rosterd.client.fence;
