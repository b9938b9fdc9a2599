package io.rosterd.client.testing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.rosterd.client.CancelReason;
import io.rosterd.client.Dataflow;
import io.rosterd.client.FatalException;
import io.rosterd.client.Run;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.junit.jupiter.api.Test;

class TestRunTest {
    @Test
    void aHandlerIsCalledWithWhatTheTestMakesUp() {
        RunResult end = TestRun.builder()
                .item(2)
                .itemParameter("Beijing")
                .offset("41")
                .build()
                .call(run -> {
                    run.progress(50, "half");
                    run.count(3, 1);
                    run.setOffset("42".getBytes(StandardCharsets.UTF_8));
                    return run.itemParameter() + " " + new String(run.offset(), StandardCharsets.UTF_8);
                });
        assertEquals(RunResult.Outcome.SUCCEEDED, end.outcome());
        assertEquals("Beijing 41", end.output());
        assertEquals(List.of(3L, 1L), List.of(end.processed(), end.failed()));
        assertArrayEquals("42".getBytes(StandardCharsets.UTF_8), end.offset().orElseThrow());
        assertEquals(List.of(new RunResult.Progress(50, "half")), end.progress());
    }

    @Test
    void failuresAreRetryableUnlessTheyAreFatal() {
        assertTrue(TestRun.builder().build().call(TestRunTest::fails).retryable());
        RunResult fatal = TestRun.builder().build().call(run -> {
            throw new FatalException("never");
        });
        assertEquals(RunResult.Outcome.FAILED, fatal.outcome());
        assertFalse(fatal.retryable());
        assertEquals("never", fatal.thrown().getMessage());
    }

    private static Object fails(Run run) {
        throw new IllegalStateException("no luck");
    }

    @Test
    void aRunThatIsCancelledInterruptsItsHandler() throws Exception {
        TestRun run = TestRun.builder().build();
        Thread canceller = new Thread(() -> run.cancel(CancelReason.OPERATOR));
        RunResult end = run.call(given -> {
            canceller.start();
            Thread.sleep(60_000);
            return null;
        });
        canceller.join();
        assertEquals(RunResult.Outcome.CANCELLED, end.outcome());
        assertFalse(end.retryable());
    }

    @Test
    void aDataflowEndsEarlyWhenTheWorkerLeaves() {
        Dataflow<Integer> endless = new Dataflow<>() {
            @Override
            public List<Integer> fetch(Run run) {
                return List.of(1);
            }

            @Override
            public void process(Run run, List<Integer> data) {
                run.progress(0, "one");
            }
        };
        RunResult end = TestRun.builder().streaming(true).leaving(true).build().call(endless);
        assertEquals(1, end.processed());
    }
}
