package io.rosterd.client;

import java.time.Instant;
import java.util.Map;
import java.util.Optional;

/**
 * One execution of one item for one fire, as its handler sees it.
 *
 * <p>All methods may be called from any thread.
 */
public interface Run {
    /** {@return the job's name} */
    String job();

    /** {@return the item, from 0 to {@link #total()} - 1} */
    int item();

    /** {@return how many items the job has} */
    int total();

    /** {@return the item's parameter, empty if it has none} */
    String itemParameter();

    /** {@return the parameter of all items, empty if there is none} */
    String jobParameter();

    /** {@return the job's properties by name, as they were when the run started} */
    Map<String, String> props();

    /** {@return the scheduled time; for a misfire the latest skipped one, for a failover that of the crashed run} */
    Instant fireTime();

    /** {@return why the run exists} */
    Source source();

    /** {@return which attempt of the run this is, from 1} */
    int attempt();

    /**
     * The fencing token: it only grows per item. Pass it to whatever the run writes to, so that it refuses a late write
     * of an older run; see {@code io.rosterd.client.fence}.
     *
     * @return a positive number of 63 bits
     */
    long token();

    /**
     * The item's offset: what the last completed run, or an earlier attempt of this one, set with {@link #setOffset}.
     *
     * @return a copy; empty if none was set
     */
    byte[] offset();

    /**
     * Sets the item's offset, for its next run. The coordinator stores it about once a second, and with the run's end,
     * so that a run that replaces a crashed one continues from there. A job without {@code monitorExecution} keeps
     * none.
     *
     * @param offset at most 64 KiB
     * @throws IllegalArgumentException if it is longer
     */
    void setOffset(byte[] offset);

    /**
     * Reports progress to people. Cheap: of many calls in a row only the last is sent.
     *
     * @param percent 0 to 100
     * @param message cut to 1 KiB
     */
    void progress(int percent, String message);

    /**
     * Adds to the counts of records that the outcome carries.
     *
     * @param processed how many more were processed
     * @param failed how many more failed
     * @throws IllegalArgumentException if one of them is negative
     */
    void count(long processed, long failed);

    /** {@return how many records were counted as processed so far} */
    long processed();

    /** {@return how many records were counted as failed so far} */
    long failed();

    /**
     * Whether the run must stop. Every call checks the lease itself: a process that was suspended may wake up after its
     * lease has expired, before it gets any message. The thread of the handler is interrupted as well, once.
     *
     * @return true once the run must stop
     */
    boolean cancelled();

    /** {@return why the run must stop; empty while it need not} */
    Optional<CancelReason> cancelReason();

    /**
     * Runs an action once the run must stop, on a thread of its own; immediately if it must stop already. After the run
     * has ended, no action is called.
     *
     * @param action for example, cancels a statement or closes a socket
     */
    void onCancel(Runnable action);

    /**
     * Ends the handler here if the run must stop.
     *
     * @throws CancelledException if {@link #cancelled()}
     */
    void throwIfCancelled();

    /** {@return when the run will be stopped as timed out; empty if it has no timeout} */
    Optional<Instant> deadline();

    /** {@return whether a dataflow continues until there is nothing left to fetch} */
    boolean streaming();

    /** {@return whether the worker is leaving: a run that can end early and be continued later should} */
    boolean leaving();

    /** {@return the worker's id under each of its jobs, {@code address@-@id}} */
    String instanceId();

    /** {@return Elastic-Job's id of the task, {@code job@-@item@-@READY@-@instanceId}: the same for each run of the item here} */
    String taskId();

    /**
     * The trace that this run belongs to, as W3C Trace Context writes it: {@code traceparent}, and {@code tracestate} if there
     * is one. All runs of a fire share its trace. If OpenTelemetry's API is on the class path, the handler runs within that
     * context already.
     *
     * @return empty if there is none
     */
    Map<String, String> traceContext();
}
