package io.rosterd.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Metadata;
import io.grpc.Status;
import io.rosterd.client.ScriptedCoordinator.Session;
import io.rosterd.v1.Hello;
import io.rosterd.v1.RunCompleted;
import io.rosterd.v1.RunOutcome;
import io.rosterd.v1.RunRef;
import io.rosterd.v1.SessionRequest.FrameCase;
import java.net.HttpURLConnection;
import java.net.Proxy;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;

/** Streams, leases and leaving against a scripted coordinator, over a real socket. Every wait is for a state. */
class WireStreamTest extends WireTest {
    private static RunCompleted completed(Session session) throws Exception {
        return session.expect(FrameCase.RUN_COMPLETED).getRunCompleted();
    }

    private static List<Long> tokens(List<RunRef> refs) {
        return refs.stream().map(RunRef::getToken).sorted().toList();
    }

    @Test
    void aResumeNamesTheRunsAndSendsWhatIsNotAcknowledgedAgainOnOneStreamAtATime() throws Exception {
        CountDownLatch finish = new CountDownLatch(1);
        Worker worker = started(run -> {
            if (run.item() == 1) finish.await();
            return null;
        });
        Session session = coordinator.accept();
        Hello first = session.greet();
        assertEquals("", first.getWorkerId());
        assertTrue(first.getHoldsTriggers() && first.getClient().startsWith("rosterd-java/"));
        session.send(Frames.trigger(7), Frames.of(Frames.run(8, 1)));
        assertEquals(7, completed(session).getRun().getToken());
        session.close(Status.UNAVAILABLE);
        Session next = coordinator.accept();
        Hello hello = next.greet();
        assertEquals("w1", hello.getWorkerId());
        assertEquals("key of w1", hello.getResumeKey());
        assertEquals(2, hello.getStreamNumber());
        assertEquals(List.of("hello"), hello.getJobsList());
        assertEquals(List.of(7L, 8L), tokens(hello.getRunsInFlightList()));
        assertEquals(7, completed(next).getRun().getToken());
        next.send(Frames.reportAck(7, 0));
        finish.countDown();
        assertEquals(8, completed(next).getRun().getToken());
        next.send(Frames.reportAck(8, 1));
        worker.stop();
        next.farewell();
        awaitEnd(worker);
        assertTrue(worker.failure().isEmpty());
        assertEquals(1, coordinator.mostOpen());
    }

    @Test
    void theNextCoordinatorTakesOverAlsoOneThatOnlyWelcomeNamed() throws Exception {
        ScriptedCoordinator second = another(0);
        Worker worker = started(run -> null);
        coordinator.accept().greet(Frames.welcome("w1").addCoordinators("http://" + second.address()));
        coordinator.close();
        Session session = second.accept();
        assertTrue(session.greet().getStreamNumber() >= 2);
        worker.stop();
        session.farewell();
        awaitEnd(worker);
    }

    @Test
    void aCoordinatorThatComesUpLaterIsFound() throws Exception {
        int port = coordinator.port();
        WorkerBuilder builder = builder();
        coordinator.close();
        Worker worker = started(builder, run -> null, JobOptions.none());
        Session session = another(port).accept();
        session.greet();
        worker.stop();
        session.farewell();
        awaitEnd(worker);
    }

    @Test
    void theCredentialGoesOutWithEveryStreamAndNowhereInPlainText() throws Exception {
        LinkedBlockingQueue<String> reasons = new LinkedBlockingQueue<>();
        WorkerListener listener = new WorkerListener() {
            @Override
            public void detached(String server, String reason) {
                reasons.add(reason);
            }
        };
        started(builder().credential("s3cret").listener(listener), run -> null, JobOptions.none());
        Session session = coordinator.accept();
        session.greet(Frames.welcome("w1").addCoordinators("http://192.0.2.1:7700"));
        Metadata.Key<String> authorization = Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);
        assertEquals("Bearer s3cret", session.metadata.get(authorization));
        session.close(Status.UNAVAILABLE);
        // The worker skipped the other coordinator, without a connection that would have to time out.
        coordinator.accept().greet();
        assertThrows(
                InvalidOptionException.class,
                () -> builder()
                        .server("http://192.0.2.1:7700")
                        .credential("s3cret")
                        .build());
    }

    @Test
    void aLeaseThatIsNotRenewedStopsRunsAndTheyAreReportedAborted() throws Exception {
        coordinator.answersHeartbeats = false;
        AtomicReference<CancelReason> reason = new AtomicReference<>();
        started(run -> {
            try {
                Thread.sleep(60_000);
            } catch (InterruptedException interrupted) {
                reason.set(run.cancelReason().orElseThrow());
            }
            return null;
        });
        Session session = coordinator.accept();
        session.greet(Frames.welcome("w1")
                .setLease(Frames.millis(1_200))
                .setHeartbeatInterval(Frames.millis(200))
                .setStopBudget(Frames.millis(100)));
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        Session next = coordinator.accept();
        Until.until("the run is told", () -> reason.get() == CancelReason.LEASE_EXPIRED);
        coordinator.answersHeartbeats = true;
        assertEquals(List.of(7L), tokens(next.greet().getRunsInFlightList()));
        assertEquals(RunOutcome.RUN_OUTCOME_ABORTED, completed(next).getOutcome());
    }

    @Test
    void handlersThatBlockOrSpinForThreeLeasesKeepTheirLease() throws Exception {
        started(run -> {
            long end = System.nanoTime() + 3_600_000_000L;
            while (System.nanoTime() < end) {
                if (run.item() == 0) Thread.sleep(3_600);
            }
            return run.cancelled();
        });
        Session session = coordinator.accept();
        session.greet(Frames.welcome("w1")
                .setLease(Frames.millis(1_200))
                .setHeartbeatInterval(Frames.millis(300))
                .setStopBudget(Frames.millis(100)));
        session.send(Frames.trigger(7), Frames.of(Frames.run(8, 1)), Frames.of(Frames.run(9, 2)));
        for (int run = 0; run < 3; run++) {
            RunCompleted report = completed(session);
            assertEquals(RunOutcome.RUN_OUTCOME_SUCCEEDED, report.getOutcome(), report::toString);
            assertEquals("false", report.getOutput());
        }
    }

    @Test
    void aWorkerThatIsAskedToStopLetsItsRunsEndFirst() throws Exception {
        CountDownLatch finish = new CountDownLatch(1);
        Worker worker = started(run -> {
            finish.await();
            return run.leaving();
        });
        Session session = coordinator.accept();
        session.greet();
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        worker.stop();
        session.expect(FrameCase.DRAIN_REQUEST);
        assertFalse(worker.isReady());
        session.send(Frames.draining());
        finish.countDown();
        assertEquals("true", completed(session).getOutput());
        session.send(Frames.reportAck(7, 0));
        session.expect(FrameCase.GOODBYE);
        session.send(Frames.goodbyeAck());
        awaitEnd(worker);
        assertTrue(worker.failure().isEmpty());
    }

    @Test
    void runsPastTheDrainDeadlineAreHandedBack() throws Exception {
        Worker worker = started(run -> {
            Thread.sleep(60_000);
            return null;
        });
        Session session = coordinator.accept();
        session.greet();
        session.send(Frames.trigger(7));
        session.expect(FrameCase.RUN_STARTED);
        session.send(Frames.drain(50));
        session.expect(FrameCase.DRAIN_REQUEST);
        session.send(Frames.draining());
        assertEquals(RunOutcome.RUN_OUTCOME_HANDED_BACK, completed(session).getOutcome());
        session.send(Frames.reportAck(7, 0));
        session.expect(FrameCase.GOODBYE);
        session.send(Frames.goodbyeAck());
        awaitEnd(worker);
    }

    @Test
    void aWorkerWhoseGoodbyeNobodyAcknowledgesEndsWithAnError() throws Exception {
        Worker worker = started(builder().leaveTimeout(Duration.ofMillis(200)), run -> null, JobOptions.none());
        coordinator.accept().greet();
        worker.stop();
        awaitEnd(worker);
        assertInstanceOf(LeaveTimedOutException.class, worker.failure().orElseThrow());
    }

    @Test
    void aWorkerThatEveryCoordinatorRejectsEnds() throws Exception {
        Worker worker = builder().build().job(Frames.JOB, run -> null);
        Thread rejecting = new Thread(() -> {
            try {
                coordinator.accept().close(Status.UNAUTHENTICATED);
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        });
        rejecting.start();
        RejectedException rejected = assertThrows(RejectedException.class, worker::run);
        assertEquals("UNAUTHENTICATED", rejected.code());
        rejecting.join();
    }

    @Test
    void aWorkerWhoseOnlyJobIsRefusedEndsWithTheReason() throws Exception {
        Worker worker = started(run -> null);
        Session session = coordinator.accept();
        session.expect(FrameCase.HELLO);
        session.send(Frames.of(Frames.welcome("w1")));
        session.expect(FrameCase.REGISTER);
        session.send(Frames.refused(Frames.JOB, "JOB_UNKNOWN"));
        session.farewell();
        awaitEnd(worker);
        JobRefusedException refused =
                assertInstanceOf(JobRefusedException.class, worker.failure().orElseThrow());
        assertEquals("JOB_UNKNOWN", refused.code());
    }

    @Test
    void jobsMayBeAddedAndGivenUpWhileTheWorkerWorks() throws Exception {
        Worker worker = started(run -> null);
        Session session = coordinator.accept();
        session.greet();
        worker.job(
                "second",
                run -> "second",
                JobOptions.builder().config("jobName: second").build());
        var register = session.expect(FrameCase.REGISTER).getRegister();
        assertEquals("second jobName: second", register.getJob() + " " + register.getConfig());
        session.send(Frames.registered("second"));
        assertThrows(InvalidOptionException.class, () -> worker.job("second", run -> null));
        worker.removeJob("second");
        assertEquals(
                "second", session.expect(FrameCase.UNREGISTER).getUnregister().getJob());
        worker.removeJob(Frames.JOB);
        session.expect(FrameCase.UNREGISTER);
        session.farewell();
        awaitEnd(worker);
        assertTrue(worker.failure().isEmpty());
    }

    @Test
    void healthIsServedOverHttp() throws Exception {
        Worker worker = started(builder().health(0), run -> null, JobOptions.none());
        Session session = coordinator.accept();
        session.greet();
        assertEquals(List.of(200, 404), List.of(get(worker, "healthz"), get(worker, "x")));
        Until.until("it is ready", () -> get(worker, "readyz") == 200);
        worker.stop();
        Until.until("it is not ready any more", () -> get(worker, "readyz") == 503);
        session.farewell();
        awaitEnd(worker);
    }

    private static int get(Worker worker, String path) throws Exception {
        URI uri = URI.create("http://127.0.0.1:" + worker.healthPort().orElseThrow() + "/" + path);
        HttpURLConnection connection = (HttpURLConnection) uri.toURL().openConnection(Proxy.NO_PROXY);
        connection.setReadTimeout(5_000);
        return connection.getResponseCode();
    }

    @Test
    void closingAWorkerWaitsUntilItHasLeft() throws Exception {
        Worker worker = started(run -> null);
        Session session = coordinator.accept();
        session.greet();
        Thread closing = new Thread(worker::close);
        closing.start();
        session.farewell();
        closing.join();
        assertTrue(worker.awaitTermination(Duration.ZERO));
        assertThrows(IllegalStateException.class, worker::run);
        assertThrows(IllegalStateException.class, () -> worker.job("late", run -> null));
    }
}
