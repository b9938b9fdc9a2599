package io.rosterd.elasticjob;

/** A job of this process. */
public interface JobBootstrap {
    /** Removes the job from this process: it gets no more of its items; those that run go on. */
    void shutdown();
}
