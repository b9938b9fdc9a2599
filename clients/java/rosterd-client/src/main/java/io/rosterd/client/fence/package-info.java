/**
 * Writes that a run which another one has replaced can no longer do: each carries the run's fencing token, and the store refuses it
 * once it has seen a higher one.
 *
 * <p>The lease makes two runs of an item at a time rare. A process that stood still in the middle of a write can still wake up after
 * its lease: only the store can tell then. None of these classes needs more than the client library that the program has anyway. What
 * they write is the same in all languages.
 */
package io.rosterd.client.fence;
