/** Real coordinators and ZooKeeper servers for tests: processes on loopback that end with the test's JVM, however that ends. */
package io.rosterd.harness;
