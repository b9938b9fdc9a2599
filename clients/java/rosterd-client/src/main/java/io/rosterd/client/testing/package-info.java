/**
 * Runs for tests of handlers: no coordinator, no network, no thread.
 *
 * <pre>{@code
 * RunResult end = TestRun.builder().item(2).itemParameter("Beijing").build().call(handler);
 * assertEquals(RunResult.Outcome.SUCCEEDED, end.outcome());
 * }</pre>
 */
package io.rosterd.client.testing;
