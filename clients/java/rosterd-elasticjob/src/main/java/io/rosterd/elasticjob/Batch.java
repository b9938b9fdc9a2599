package io.rosterd.elasticjob;

import io.rosterd.client.Run;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import org.apache.shardingsphere.elasticjob.infra.listener.ShardingContexts;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The runs of one fire in this process, with the job's listeners around them.
 *
 * <p>The order is Elastic-Job's: all listeners, then all items, on the job's pool (a single one on the thread of the listeners),
 * then all listeners. The run that ends last is reported after them, so that they belong to the fire: the process does not leave
 * before, and a crash during them is a crash of that run.
 */
final class Batch {
    private static final Logger LOG = LoggerFactory.getLogger(Batch.class);

    private final ItemExecution execution;
    private final Listeners listeners;
    private final TreeMap<Integer, ItemTask> tasks = new TreeMap<>();
    private int left;
    /** The batch waits for no item yet: an item that leaves may go immediately. */
    private boolean gathering = true;

    Batch(ItemExecution execution, Listeners listeners) {
        this.execution = execution;
        this.listeners = listeners;
    }

    synchronized ItemTask add(Run run, Carried carried) {
        ItemTask task = new ItemTask(run, carried, this::ended);
        tasks.put(run.item(), task);
        return task;
    }

    synchronized boolean has(int item) {
        return tasks.containsKey(item);
    }

    synchronized boolean hasAll(Set<Integer> items) {
        return tasks.keySet().containsAll(items);
    }

    /** Executes it on the calling thread; runs that come later belong to another batch. */
    void execute() {
        Collection<ItemTask> members = begin();
        if (members.isEmpty()) return;
        try {
            ShardingContexts contexts =
                    Contexts.of(members.stream().map(ItemTask::origin).toList());
            if (before(contexts, members) && items(contexts, List.copyOf(members))) after(contexts);
        } catch (RuntimeException | Error failed) {
            // An item that has not begun must not count as done.
            members.forEach(task -> task.refuse(failed));
            throw failed;
        } finally {
            members.forEach(ItemTask::release);
        }
    }

    /** The items that were not stopped while they waited. */
    private synchronized Collection<ItemTask> begin() {
        gathering = false;
        List<ItemTask> members =
                tasks.values().stream().filter(task -> !task.isOver()).toList();
        left = members.size();
        return members;
    }

    private boolean before(ShardingContexts contexts, Collection<ItemTask> members) {
        try {
            listeners.before(contexts);
        } catch (Throwable thrown) {
            try {
                execution.handle(thrown);
            } catch (Throwable refused) {
                members.forEach(task -> task.refuse(refused));
                return false;
            }
        }
        return true;
    }

    /** Executes all items and waits for them; false: the error handler has ended the fire here. */
    private boolean items(ShardingContexts contexts, List<ItemTask> members) {
        members.forEach(task -> task.give(run -> execution.execute(run, contexts)));
        if (members.size() == 1) {
            members.get(0).run();
        } else {
            members.forEach(this::submit);
        }
        awaitAll();
        return members.size() > 1 || !(members.get(0).failure() instanceof ItemExecution.HandlerThrew);
    }

    private void submit(ItemTask task) {
        try {
            execution.pool().execute(task);
        } catch (RuntimeException rejected) {
            task.refuse(rejected);
        }
    }

    private synchronized void awaitAll() {
        boolean interrupted = false;
        while (left > 0) {
            try {
                wait();
            } catch (InterruptedException ignored) {
                // An interrupt that an item left behind: it must not reach a listener, and items end by their runs.
                interrupted = true;
            }
        }
        if (interrupted) LOG.debug("an interrupt was left over by an item");
    }

    private void after(ShardingContexts contexts) {
        try {
            listeners.after(contexts);
        } catch (Throwable thrown) {
            try {
                execution.handle(thrown);
            } catch (Throwable second) {
                LOG.error("job '{}': a listener has failed after its items", contexts.getJobName(), second);
            }
        }
    }

    /** An item has ended, or will not begin. */
    private void ended(ItemTask task) {
        boolean mayGo;
        synchronized (this) {
            if (!gathering) left--;
            mayGo = gathering || left > 0;
            if (left == 0) notifyAll();
        }
        if (mayGo) task.release();
    }
}
