package io.rosterd.client.internal.machine;

import io.rosterd.v1.ReportAck;
import io.rosterd.v1.ReportResult;
import io.rosterd.v1.SessionRequest;
import java.util.Collection;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.slf4j.event.Level;

/** The reports that are not acknowledged. Each is kept until its acknowledgement, and sent again on every new stream. */
final class Reports {
    private final Outbox out;
    // In the order in which runs ended; the next field is a subset of it.
    private final Map<RunKey, InFlightRun> kept = new LinkedHashMap<>();
    // Those that were not sent on the current stream, and how many were.
    private Map<RunKey, InFlightRun> unsent = new LinkedHashMap<>();
    private int underWay;
    private long stream;

    Reports(Outbox out) {
        this.out = out;
    }

    boolean contains(RunKey key) {
        return kept.containsKey(key);
    }

    Collection<InFlightRun> all() {
        return kept.values();
    }

    int underWay() {
        return underWay;
    }

    void add(InFlightRun run) {
        kept.put(run.key, run);
        unsent.put(run.key, run);
    }

    /** No coordinator waits for them. */
    void clear() {
        kept.clear();
        unsent.clear();
        underWay = 0;
    }

    /** Sends what is pending on this stream; at most {@code credits} reports may be unacknowledged. */
    void send(long onStream, int credits) {
        if (onStream != stream) {
            stream = onStream;
            underWay = 0;
            unsent = new LinkedHashMap<>(kept);
        }
        Iterator<InFlightRun> next = unsent.values().iterator();
        while (underWay < credits && next.hasNext()) {
            InFlightRun run = next.next();
            next.remove();
            underWay++;
            out.send(SessionRequest.newBuilder().setRunCompleted(run.report));
        }
    }

    void acknowledged(ReportAck ack) {
        RunKey key = RunKey.of(ack.getRun());
        InFlightRun run = kept.remove(key);
        if (run == null) return;
        if (unsent.remove(key) == null) underWay--;
        if (ack.getResult() == ReportResult.REPORT_RESULT_ACCEPTED) return;
        String why = ack.getCode() + ": " + ack.getMessage();
        if (ack.getResult() != ReportResult.REPORT_RESULT_INVALID || run.replaces) {
            out.note(Level.WARN, "the report of " + key + " was not accepted: " + why);
            return;
        }
        out.note(Level.ERROR, "the report of " + key + " was refused, it is reported as failed: " + why);
        run.reportInstead(why);
        add(run);
    }
}
