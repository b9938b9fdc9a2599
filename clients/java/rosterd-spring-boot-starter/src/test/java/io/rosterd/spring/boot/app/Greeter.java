package io.rosterd.spring.boot.app;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.springframework.stereotype.Component;

/** What jobs of the application use. */
@Component
public class Greeter {
    private final List<String> greeted = new CopyOnWriteArrayList<>();

    void greet(String whom) {
        greeted.add(whom);
    }

    public List<String> greeted() {
        return greeted;
    }
}
