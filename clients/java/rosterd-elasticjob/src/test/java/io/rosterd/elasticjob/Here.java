package io.rosterd.elasticjob;

import java.util.Set;

/** A process that owns the given items. */
record Here(Set<Integer> items) implements AdaptedJob.LocalWorker {
    @Override
    public Set<Integer> itemsOf(String job) {
        return items;
    }

    @Override
    public String instanceId() {
        return "127.0.0.1@-@test";
    }
}
