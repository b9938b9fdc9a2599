package io.rosterd.client.internal.machine;

import io.rosterd.v1.RunRef;

/** Names one run; the token is its fencing token. */
public record RunKey(String job, int item, long token) {
    static RunKey of(RunRef ref) {
        return new RunKey(ref.getJob(), ref.getItem(), ref.getToken());
    }

    RunRef ref() {
        return RunRef.newBuilder().setJob(job).setItem(item).setToken(token).build();
    }

    Item ofItem() {
        return new Item(job, item);
    }

    @Override
    public String toString() {
        return job + "/" + item + " token " + Long.toUnsignedString(token);
    }

    /** An item of a job, for maps. */
    record Item(String job, int item) {}
}
