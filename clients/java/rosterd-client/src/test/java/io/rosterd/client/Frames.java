package io.rosterd.client;

import com.google.protobuf.ByteString;
import com.google.protobuf.Duration;
import io.rosterd.v1.Assignment;
import io.rosterd.v1.Callback;
import io.rosterd.v1.CallbackKind;
import io.rosterd.v1.Cancel;
import io.rosterd.v1.CancelReason;
import io.rosterd.v1.Drain;
import io.rosterd.v1.Draining;
import io.rosterd.v1.GoodbyeAck;
import io.rosterd.v1.HeartbeatAck;
import io.rosterd.v1.Refused;
import io.rosterd.v1.Registered;
import io.rosterd.v1.ReportAck;
import io.rosterd.v1.ReportResult;
import io.rosterd.v1.RunRef;
import io.rosterd.v1.RunSource;
import io.rosterd.v1.SessionResponse;
import io.rosterd.v1.Trigger;
import io.rosterd.v1.Welcome;
import java.util.Map;

/** Frames of a coordinator, for tests. */
final class Frames {
    static final String JOB = "hello";

    private Frames() {}

    static Duration millis(long millis) {
        return Duration.newBuilder()
                .setSeconds(millis / 1000)
                .setNanos((int) (millis % 1000) * 1_000_000)
                .build();
    }

    static RunRef ref(long token, int item) {
        return RunRef.newBuilder().setJob(JOB).setItem(item).setToken(token).build();
    }

    static Welcome.Builder welcome(String workerId) {
        return Welcome.newBuilder()
                .setWorkerId(workerId)
                .setInstanceId("10.0.0.1@-@" + workerId)
                .setResumeKey("key of " + workerId)
                .setNamespace("test")
                .setLease(millis(60_000))
                .setHeartbeatInterval(millis(1_000))
                .setStopBudget(millis(500))
                .setMaxUnacknowledgedReports(64);
    }

    static SessionResponse of(Welcome.Builder welcome) {
        return SessionResponse.newBuilder().setWelcome(welcome).build();
    }

    static SessionResponse registered(String job) {
        return SessionResponse.newBuilder()
                .setRegistered(Registered.newBuilder().setJob(job).setShardingTotalCount(3))
                .build();
    }

    static SessionResponse refused(String job, String code) {
        return SessionResponse.newBuilder()
                .setRefused(Refused.newBuilder().setJob(job).setCode(code).setMessage("mend it"))
                .build();
    }

    static SessionResponse heartbeatAck(long sequence) {
        return SessionResponse.newBuilder()
                .setHeartbeatAck(HeartbeatAck.newBuilder().setSequence(sequence))
                .build();
    }

    static SessionResponse assignment(Map<String, String> props) {
        return SessionResponse.newBuilder()
                .setAssignment(Assignment.newBuilder().setJob(JOB).addItems(0).putAllProps(props))
                .build();
    }

    static Trigger.Builder run(long token, int item) {
        return Trigger.newBuilder()
                .setRun(ref(token, item))
                .setFireTime(com.google.protobuf.Timestamp.newBuilder().setSeconds(1_700_000_000))
                .setSource(RunSource.RUN_SOURCE_NORMAL_TRIGGER)
                .setShardingTotalCount(3)
                .setAttempt(1)
                .setMaxAttempts(1)
                .setTaskId(JOB + "@-@" + item + "@-@READY@-@10.0.0.1@-@w1");
    }

    static SessionResponse of(Trigger.Builder trigger) {
        return SessionResponse.newBuilder().setTrigger(trigger).build();
    }

    static SessionResponse trigger(long token) {
        return of(run(token, 0));
    }

    static ByteString bytes(String text) {
        return ByteString.copyFromUtf8(text);
    }

    static SessionResponse cancel(long token, CancelReason reason) {
        return SessionResponse.newBuilder()
                .setCancel(Cancel.newBuilder().setRun(ref(token, 0)).setReason(reason))
                .build();
    }

    static SessionResponse reportAck(long token, int item) {
        return SessionResponse.newBuilder()
                .setReportAck(
                        ReportAck.newBuilder().setRun(ref(token, item)).setResult(ReportResult.REPORT_RESULT_ACCEPTED))
                .build();
    }

    static SessionResponse callback(String id, CallbackKind kind) {
        return SessionResponse.newBuilder()
                .setCallback(Callback.newBuilder().setCallbackId(id).setJob(JOB).setKind(kind))
                .build();
    }

    static SessionResponse drain(long graceMillis) {
        return SessionResponse.newBuilder()
                .setDrain(Drain.newBuilder().setGrace(millis(graceMillis)))
                .build();
    }

    static SessionResponse draining() {
        return SessionResponse.newBuilder()
                .setDraining(Draining.getDefaultInstance())
                .build();
    }

    static SessionResponse goodbyeAck() {
        return SessionResponse.newBuilder()
                .setGoodbyeAck(GoodbyeAck.getDefaultInstance())
                .build();
    }
}
