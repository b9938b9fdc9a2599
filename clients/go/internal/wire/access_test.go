package wire

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestACredentialInPlainTextGoesToThisMachineOnlyUnlessTheUserSaysOtherwise(t *testing.T) {
	access := &Access{Credential: "s3cret"}
	for address, exposed := range map[string]bool{
		"localhost:7700": false, "127.0.0.1:7700": false, "http://[::1]:7700": false, "127.9.9.9:1": false,
		"http://[::ffff:127.0.0.1]:7700": false, "https://example.com": false,
		"example.com:7700": true, "http://192.0.2.1:7700": true, "http://localhost.example.com:1": true, "no address": true,
	} {
		if access.Exposes(address) != exposed {
			t.Errorf("%s: %v", address, !exposed)
		}
	}
	access.InsecureCredential = true
	if access.Exposes("example.com:7700") {
		t.Error("the user has said otherwise")
	}
	if (&Access{}).Exposes("example.com:7700") {
		t.Error("there is no credential")
	}
}

func TestACoordinatorThatOnlyAWelcomeNamedIsTrustedByItsHostOrByTheUsersAuthorities(t *testing.T) {
	withCA := Access{Credential: "s", Base: &tls.Config{RootCAs: x509.NewCertPool()}}
	for _, one := range []struct {
		access  Access
		given   string
		address string
		trusted bool
	}{
		{Access{}, "a:1", "b:1", true},
		{Access{}, "https://a:1", "https://b:1", false},
		{Access{Credential: "s"}, "a:1", "http://A:2", true},
		{Access{Credential: "s"}, "a:1", "b:1", false},
		{Access{Credential: "s"}, "localhost:1", "http://127.0.0.2:7700", true},
		{Access{Credential: "s", Roots: PEM{File: "ca.pem"}}, "a:1", "https://b:1", true},
		{Access{Credential: "s", Roots: PEM{Text: []byte("pem")}}, "a:1", "http://b:1", false},
		{withCA, "https://a:1", "https://b:1", true},
	} {
		if one.access.Trusts([]string{one.given})(one.address) != one.trusted {
			t.Errorf("%+v", one)
		}
	}
}

func TestTheTargetOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{
		"a:1": "a:1", "http://a": "a:80", "https://a": "a:443", "https://a:7700/": "a:7700", "http://[::1]:7700": "[::1]:7700",
		"a": "", "ftp://a:1": "", "https://": "", "https://a/path": "",
	} {
		if got, err := Target(address); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", address, got, err)
		}
	}
}

func TestWhatGRPCSaysOfAConnectionThatDoesNotComeIsSaidPlainly(t *testing.T) {
	text := `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`
	if got := plain(text); got != "dialing: dial tcp 127.0.0.1:1: connect: connection refused" {
		t.Error(got)
	}
}
