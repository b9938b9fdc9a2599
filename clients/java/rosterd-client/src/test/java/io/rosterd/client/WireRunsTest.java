package io.rosterd.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.opentelemetry.api.trace.Span;
import io.rosterd.client.ScriptedCoordinator.Session;
import io.rosterd.v1.CallbackKind;
import io.rosterd.v1.CancelReason;
import io.rosterd.v1.RunCompleted;
import io.rosterd.v1.RunOutcome;
import io.rosterd.v1.SessionRequest.FrameCase;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.slf4j.MDC;

/** Runs against a scripted coordinator, over a real socket. Every wait is for a state. */
class WireRunsTest extends WireTest {
    private static final String TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    private Session greeted() throws Exception {
        Session session = coordinator.accept();
        session.greet();
        return session;
    }

    private static RunCompleted completed(Session session) throws Exception {
        return session.expect(FrameCase.RUN_COMPLETED).getRunCompleted();
    }

    private static void assertOutcome(RunOutcome outcome, RunCompleted report) {
        assertEquals(outcome, report.getOutcome(), report::toString);
    }

    @Test
    void aRunSeesWhatItsTriggerSaysAndItsReportWhatItLeft() throws Exception {
        AtomicReference<Run> seen = new AtomicReference<>();
        started(run -> {
            seen.set(run);
            run.count(5, 1);
            run.setOffset("page 10".getBytes(StandardCharsets.UTF_8));
            return 42;
        });
        Session session = greeted();
        session.send(
                Frames.assignment(Map.of("colour", "green")),
                Frames.of(Frames.run(Long.MAX_VALUE, 2)
                        .setItemParameter("Lima")
                        .setJobParameter("all")
                        .setOffset(Frames.bytes("page 9"))
                        .setTimeout(Frames.millis(60_000))
                        .putTraceContext("traceparent", TRACE)
                        .setStreaming(true)));
        RunCompleted report = completed(session);
        assertOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED, report);
        assertEquals(Long.MAX_VALUE, report.getRun().getToken());
        assertEquals("42", report.getOutput());
        assertEquals(5, report.getProcessed());
        assertEquals(1, report.getFailed());
        assertEquals("page 10", report.getOffset().toStringUtf8());
        Run run = seen.get();
        assertEquals(
                "hello 2 of 3, Lima, all",
                run.job() + " " + run.item() + " of " + run.total() + ", " + run.itemParameter() + ", "
                        + run.jobParameter());
        assertEquals(Map.of("colour", "green"), run.props());
        assertEquals(Instant.ofEpochSecond(1_700_000_000), run.fireTime());
        assertEquals(Source.NORMAL_TRIGGER, run.source());
        assertEquals(Long.MAX_VALUE, run.token());
        assertArrayEquals("page 9".getBytes(StandardCharsets.UTF_8), run.offset());
        assertEquals("10.0.0.1@-@w1", run.instanceId());
        assertEquals("hello@-@2@-@READY@-@10.0.0.1@-@w1", run.taskId());
        assertEquals(Map.of("traceparent", TRACE), run.traceContext());
        assertTrue(run.streaming() && run.deadline().isPresent());
    }

    @Test
    void logLinesOfAHandlerHaveTheIdsOfItsRun() throws Exception {
        started(run -> MDC.getCopyOfContextMap());
        Session session = greeted();
        session.send(Frames.trigger(7));
        String ids = completed(session).getOutput();
        for (String id : List.of(
                "\"rosterd.job\":\"hello\"",
                "\"rosterd.item\":\"0\"",
                "\"rosterd.token\":\"7\"",
                "\"rosterd.instance\":\"10.0.0.1@-@w1\"")) {
            assertTrue(ids.contains(id), ids);
        }
    }

    @Test
    void aHandlerRunsWithinTheTraceOfItsRun() throws Exception {
        started(run -> Span.current().getSpanContext().getTraceId());
        Session session = greeted();
        session.send(Frames.of(Frames.run(7, 0).putTraceContext("traceparent", TRACE)));
        assertEquals("0af7651916cd43dd8448eb211c80319c", completed(session).getOutput());
    }

    @Test
    void aFailureIsReportedWithItsStackAndTriedAgainUnlessItIsFatal() throws Exception {
        List<Integer> attempts = Collections.synchronizedList(new ArrayList<>());
        started(run -> {
            attempts.add(run.attempt());
            if (run.item() == 1) throw new FatalException("never");
            throw new IllegalStateException("no luck");
        });
        Session session = greeted();
        session.send(Frames.of(Frames.run(7, 0).setMaxAttempts(3).setRetryBackoff(Frames.millis(5))));
        RunCompleted failed = completed(session);
        assertOutcome(RunOutcome.RUN_OUTCOME_FAILED, failed);
        assertEquals(List.of(1, 2, 3), attempts);
        assertTrue(failed.getError().startsWith("java.lang.IllegalStateException: no luck\n\tat "), failed.getError());
        session.send(Frames.of(Frames.run(8, 1).setMaxAttempts(3)));
        RunCompleted fatal = completed(session);
        assertEquals(1, fatal.getAttempt());
        assertTrue(fatal.getError().contains("FatalException: never"));
    }

    @Test
    void aCancelInterruptsTheHandlerAndRunsItsActions() throws Exception {
        CountDownLatch acted = new CountDownLatch(1);
        started(run -> {
            run.onCancel(acted::countDown);
            Thread.sleep(60_000);
            return null;
        });
        Session session = greeted();
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        session.send(Frames.cancel(7, CancelReason.CANCEL_REASON_OPERATOR));
        assertOutcome(RunOutcome.RUN_OUTCOME_CANCELLED, completed(session));
        acted.await();
    }

    @Test
    void anInterruptForOneRunDoesNotReachTheNext() throws Exception {
        started(
                builder().virtualThreads(false),
                run -> {
                    while (!run.cancelled() && run.item() == 0) Thread.onSpinWait();
                    return Thread.currentThread().isInterrupted();
                },
                JobOptions.none());
        Session session = greeted();
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        session.send(Frames.cancel(7, CancelReason.CANCEL_REASON_OPERATOR));
        assertOutcome(RunOutcome.RUN_OUTCOME_CANCELLED, completed(session));
        session.send(Frames.of(Frames.run(8, 1)));
        assertEquals("false", completed(session).getOutput());
    }

    @Test
    void aRunThatTakesTooLongIsReportedAsTimedOut() throws Exception {
        started(run -> {
            Thread.sleep(60_000);
            return null;
        });
        Session session = greeted();
        session.send(Frames.of(Frames.run(7, 0).setTimeout(Frames.millis(100))));
        assertOutcome(RunOutcome.RUN_OUTCOME_TIMED_OUT, completed(session));
    }

    @Test
    void aHigherTokenFencesTheOlderRun() throws Exception {
        AtomicReference<Optional<io.rosterd.client.CancelReason>> reason = new AtomicReference<>();
        started(run -> {
            try {
                Thread.sleep(60_000);
            } finally {
                reason.set(run.cancelReason());
            }
            return null;
        });
        Session session = greeted();
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        session.send(Frames.trigger(8));
        RunCompleted refused = completed(session);
        assertEquals(8, refused.getRun().getToken());
        assertOutcome(RunOutcome.RUN_OUTCOME_NOT_STARTED, refused);
        assertOutcome(RunOutcome.RUN_OUTCOME_ABORTED, completed(session));
        assertEquals(Optional.of(io.rosterd.client.CancelReason.FENCED), reason.get());
    }

    @Test
    void aDataflowStreamsUntilNothingIsLeft() throws Exception {
        List<List<String>> batches = new ArrayList<>(List.of(List.of("a", "b"), List.of("c")));
        Dataflow<String> flow = new Dataflow<>() {
            @Override
            public List<String> fetch(Run run) {
                return batches.isEmpty() ? List.of() : batches.remove(0);
            }

            @Override
            public void process(Run run, List<String> data) {
                if (data.contains("c")) run.count(1, 1);
            }
        };
        started(flow.asHandler());
        Session session = greeted();
        session.send(Frames.of(Frames.run(7, 0).setStreaming(true)));
        RunCompleted report = completed(session);
        assertOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED, report);
        assertEquals(3, report.getProcessed());
        assertEquals(1, report.getFailed());
    }

    @Test
    void callbacksOfFiresAreAnsweredWithWhatTheyThrow() throws Exception {
        AtomicReference<Fire> fire = new AtomicReference<>();
        JobOptions options = JobOptions.builder()
                .onAllStarted(fire::set)
                .onAllCompleted(completed -> {
                    throw new IllegalStateException("refused");
                })
                .build();
        started(builder(), run -> null, options);
        Session session = greeted();
        session.send(Frames.callback("c1", CallbackKind.CALLBACK_KIND_ALL_STARTED));
        assertEquals(
                "", session.expect(FrameCase.CALLBACK_DONE).getCallbackDone().getError());
        assertEquals(Frames.JOB, fire.get().job());
        session.send(Frames.callback("c2", CallbackKind.CALLBACK_KIND_ALL_COMPLETED));
        String error = session.expect(FrameCase.CALLBACK_DONE).getCallbackDone().getError();
        assertTrue(error.contains("refused"), error);
    }

    @Test
    void hooksSurroundEveryAttempt() throws Exception {
        List<String> told = Collections.synchronizedList(new ArrayList<>());
        JobOptions options = JobOptions.builder()
                .before(run -> told.add("before"))
                .onError((run, error) -> told.add(error.getMessage()))
                .after(run -> told.add("after"))
                .build();
        started(
                builder(),
                run -> {
                    if (run.attempt() == 1) throw new IllegalStateException("again");
                    return null;
                },
                options);
        Session session = greeted();
        session.send(Frames.of(Frames.run(7, 0).setMaxAttempts(2)));
        assertOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED, completed(session));
        assertEquals(List.of("before", "again", "after", "before", "after"), told);
    }

    @Test
    void whatIsTooLargeIsRefusedOrCut() throws Exception {
        AtomicReference<Throwable> refusal = new AtomicReference<>();
        started(run -> {
            refusal.set(assertThrows(IllegalArgumentException.class, () -> run.setOffset(new byte[64 * 1024 + 1])));
            return "ä".repeat(64 * 1024);
        });
        Session session = greeted();
        session.send(Frames.trigger(7));
        RunCompleted report = completed(session);
        assertFalse(report.hasOffset());
        int length = report.getOutput().getBytes(StandardCharsets.UTF_8).length;
        assertTrue(length <= 64 * 1024 && length > 64 * 1024 - 4, "cut to " + length);
        assertTrue(refusal.get().getMessage().contains("65536 bytes"));
    }

    @Test
    void progressGoesOutWithTheLatestValueHoweverOftenItIsSaid() throws Exception {
        CountDownLatch finish = new CountDownLatch(1);
        started(run -> {
            for (int step = 0; step <= 10_000; step++) run.progress(step / 100, "step " + step);
            run.setOffset("half".getBytes(StandardCharsets.UTF_8));
            finish.await();
            return null;
        });
        Session session = greeted();
        session.send(Frames.trigger(7));
        int frames = 0;
        while (true) {
            var progress = session.expect(FrameCase.RUN_PROGRESS).getRunProgress();
            frames++;
            if (progress.getMessage().equals("step 10000") && progress.hasOffset()) break;
        }
        assertTrue(frames <= 20, frames + " frames for 10,001 calls");
        finish.countDown();
        assertOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED, completed(session));
    }

    @Test
    void aListenerHearsWhatMetricsAreMadeOfAndHarmsNothing() throws Exception {
        LinkedBlockingQueue<String> heard = new LinkedBlockingQueue<>();
        WorkerListener listener = new WorkerListener() {
            @Override
            public void attached(String server, String instanceId) {
                heard.add("attached " + instanceId);
                throw new IllegalStateException("harmless");
            }

            @Override
            public void runStarted(Run run) {
                heard.add("started " + run.item());
                throw new IllegalStateException("harmless");
            }

            @Override
            public void runEnded(Run run, RunEnd end, Duration duration, Throwable error) {
                heard.add("ended " + end);
            }
        };
        started(builder().listener(listener), run -> null, JobOptions.none());
        Session session = greeted();
        assertEquals("attached 10.0.0.1@-@w1", heard.take());
        session.send(Frames.trigger(7));
        assertOutcome(RunOutcome.RUN_OUTCOME_SUCCEEDED, completed(session));
        assertEquals(List.of("started 0", "ended RETURNED"), List.of(heard.take(), heard.take()));
    }
}
