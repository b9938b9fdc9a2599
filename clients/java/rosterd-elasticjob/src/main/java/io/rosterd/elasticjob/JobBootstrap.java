package io.rosterd.elasticjob;

/** A job of this process. */
public interface JobBootstrap {
    /** Gives the job up here: no more of its items come, those that run go on. */
    void shutdown();
}
