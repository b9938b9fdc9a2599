package com.example.reports;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.stereotype.Service;

/** Records what the jobs have done. */
@Service
public class Ledger {
    private static final Logger LOG = LoggerFactory.getLogger(Ledger.class);

    private final List<String> entries = new CopyOnWriteArrayList<>();

    /** Adds an entry. */
    public void add(String entry) {
        LOG.info("{}", entry);
        entries.add(entry);
    }

    /** {@return all entries so far} */
    public List<String> entries() {
        return entries;
    }
}
