package io.rosterd.spring.boot;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.core.env.Environment;

/** Properties of Elastic-Job's starter that have no effect here: each is logged once, with its replacement. */
final class Ignored {
    private static final Map<String, String> INSTEAD = new LinkedHashMap<>();

    static {
        INSTEAD.put("elasticjob.reg-center", "coordinators are named by rosterd.server; ZooKeeper is their affair");
        INSTEAD.put("elasticjob.tracing", "the coordinator keeps the history of all runs: `rosterd runs`");
        INSTEAD.put("elasticjob.dump", "`rosterd dump` asks the coordinator");
    }

    private Ignored() {}

    static List<String> hints(Environment environment) {
        List<String> hints = new ArrayList<>();
        INSTEAD.forEach((prefix, instead) -> {
            boolean set = Binder.get(environment)
                    .bind(prefix, Bindable.mapOf(String.class, Object.class))
                    .isBound();
            if (set) hints.add(prefix + ".* has no effect: " + instead);
        });
        return hints;
    }
}
