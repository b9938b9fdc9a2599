package io.rosterd.elasticjob;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.ErrorInfo;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import io.rosterd.v1.AdminServiceGrpc;
import io.rosterd.v1.TriggerJobRequest;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Asks a coordinator to run all items of a job now. */
final class JobTrigger {
    private static final Logger LOG = LoggerFactory.getLogger(JobTrigger.class);

    /** For all attempts; the coordinator knows a job that this process has just registered much sooner. */
    private static final Duration PATIENCE = Duration.ofSeconds(10);

    private static final Duration PAUSE = Duration.ofMillis(50);

    private final String job;
    private final long deadline = System.nanoTime() + PATIENCE.toNanos();

    private JobTrigger(String job) {
        this.job = job;
    }

    /**
     * Triggers.
     *
     * @param job the job's name
     * @param channel opens a channel to a coordinator
     */
    static void fire(String job, Supplier<ManagedChannel> channel) {
        ManagedChannel open = channel.get();
        try {
            new JobTrigger(job).fire(AdminServiceGrpc.newBlockingStub(open));
        } finally {
            open.shutdownNow();
        }
    }

    private void fire(AdminServiceGrpc.AdminServiceBlockingStub admin) {
        // An item that is running runs once more after that: the trigger is not lost, unlike in Elastic-Job.
        TriggerJobRequest request =
                TriggerJobRequest.newBuilder().setJob(job).setAfterCurrent(true).build();
        while (true) {
            try {
                admin.withDeadlineAfter(Math.max(1, left()), TimeUnit.NANOSECONDS)
                        .triggerJob(request);
                return;
            } catch (StatusRuntimeException refused) {
                String reason = reasonOf(refused);
                if (reason.equals("TRIGGER_WAITING")) {
                    LOG.info("job '{}' was triggered already and has not begun: it runs once for both", job);
                    return;
                }
                if (!reason.equals("JOB_UNKNOWN") || left() <= 0) throw failed(refused);
                pause(refused);
            }
        }
    }

    private long left() {
        return deadline - System.nanoTime();
    }

    /** The registration is on its way. */
    private void pause(StatusRuntimeException refused) {
        try {
            TimeUnit.NANOSECONDS.sleep(PAUSE.toNanos());
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw failed(refused);
        }
    }

    private JobTriggerException failed(StatusRuntimeException refused) {
        String advice = switch (refused.getStatus().getCode()) {
            case UNAUTHENTICATED, PERMISSION_DENIED ->
                ": a worker's credential may not trigger; give an operator's"
                        + " (RosterdConfiguration.setOperatorCredential)";
            default -> "";
        };
        return new JobTriggerException(
                "job '" + job + "' was not triggered: " + refused.getStatus().getDescription() + advice, refused);
    }

    /** The code of the table of error codes, empty if the status carries none. */
    private static String reasonOf(StatusRuntimeException refused) {
        com.google.rpc.Status status = StatusProto.fromThrowable(refused);
        if (status == null) return "";
        for (com.google.protobuf.Any detail : status.getDetailsList()) {
            if (!detail.is(ErrorInfo.class)) continue;
            try {
                return detail.unpack(ErrorInfo.class).getReason();
            } catch (InvalidProtocolBufferException damaged) {
                return "";
            }
        }
        return "";
    }
}
