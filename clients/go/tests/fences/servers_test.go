// Package fences tests the fences against real servers: PostgreSQL and Redis from Debian's packages, each in a folder
// of its own, on loopback.
package fences

import (
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

const patience = 20 * time.Second

func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// launch runs a server until the test ends.
func launch(t *testing.T, command *exec.Cmd) {
	t.Helper()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
}

func startRedis(t *testing.T) (address string) {
	t.Helper()
	const server = "/usr/bin/redis-server"
	if _, err := os.Stat(server); err != nil {
		t.Fatalf("%v: apt-get install redis-server", err)
	}
	port := freePort(t)
	launch(t, exec.Command(server, "--port", port, "--bind", "127.0.0.1", "--dir", t.TempDir(), "--save", ""))
	return "127.0.0.1:" + port
}

// owner: PostgreSQL does not run as root; as root, use the user of Debian's package.
func owner(t *testing.T) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}

func startPostgres(t *testing.T) (port string) {
	t.Helper()
	installed, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(installed) == 0 {
		t.Fatal("PostgreSQL is not there: apt-get install postgresql")
	}
	slices.Sort(installed)
	programs := installed[len(installed)-1]
	// Not in the test's folder: the other user has no access to that.
	folder, err := os.MkdirTemp("", "rosterd-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	as := owner(t)
	if as != nil {
		if err := os.Chown(folder, int(as.Credential.Uid), int(as.Credential.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, flags ...string) *exec.Cmd {
		command := exec.Command(filepath.Join(programs, name), flags...)
		command.Dir, command.SysProcAttr = folder, as
		return command
	}
	data := filepath.Join(folder, "data")
	if output, err := run("initdb", "-D", data, "-U", "tests", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	port = freePort(t)
	launch(t, run("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=", "-F"))
	return port
}

// until waits for a state.
func until(t *testing.T, what string, state func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = state(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}
