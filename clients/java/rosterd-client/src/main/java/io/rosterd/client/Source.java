package io.rosterd.client;

/** Why a run exists. */
public enum Source {
    /** A reason that this version does not know. */
    UNSPECIFIED,
    /** A scheduled time. */
    NORMAL_TRIGGER,
    /** Scheduled times that were skipped while the item was busy, merged into one run. */
    MISFIRE,
    /** A crashed run, run again. */
    FAILOVER,
    /** A manual trigger. */
    MANUAL
}
