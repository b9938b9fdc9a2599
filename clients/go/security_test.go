package rosterd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rosterd/rosterd/clients/go"
)

// identity is a certificate with its key.
type identity struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// In PEM.
	certificatePEM, keyPEM []byte
}

// issue makes one; without an issuer it is self-signed, and an authority.
func issue(t *testing.T, name string, issuer *identity, names ...string) *identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames:    names,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(names) > 0 && names[0] == "localhost" {
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	made := &identity{key: key}
	signer := &identity{certificate: template, key: key}
	if issuer != nil {
		signer = issuer
	} else {
		template.IsCA, template.BasicConstraintsValid = true, true
		template.KeyUsage |= x509.KeyUsageCertSign
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, signer.certificate, &key.PublicKey, signer.key)
	if err != nil {
		t.Fatal(err)
	}
	if made.certificate, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	made.certificatePEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
	made.keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
	return made
}

func TestTLSCertificatesAndCredentialsAtTheRealCoordinator(t *testing.T) {
	folder := t.TempDir()
	file := func(name string, content []byte) string {
		path := filepath.Join(folder, name)
		if content != nil {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	ca, other := issue(t, "ca", nil), issue(t, "other", nil)
	server := issue(t, "server", ca, "localhost")
	client := issue(t, "client", ca, "worker.example")
	credentials := file("credentials.toml", nil)
	add := func(more ...string) string {
		all := append([]string{"credentials", "add", "--role", "worker", "--file", credentials}, more...)
		output, err := exec.Command(binary(t), all...).Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(output)), "\n")
		return lines[len(lines)-1]
	}
	secret := add("tests")
	add("--certificate", "dns:worker.example", "certified")
	coordinator := serve(t,
		"--tls-cert", file("server.pem", server.certificatePEM), "--tls-key", file("server.key", server.keyPEM),
		"--credentials", credentials, "--tls-client-ca", file("ca.pem", ca.certificatePEM))
	secured := "https://" + coordinator.address
	config := rosterd.WithConfig(rosterd.JobConfig{Items: 1})
	roots := rosterd.WithRootCertificates(ca.certificatePEM)

	t.Run("a secret over TLS", func(t *testing.T) {
		registered(work(t, secured, nothing, config, roots, rosterd.WithCredential(secret)))
	})
	t.Run("a certificate of the worker's own", func(t *testing.T) {
		registered(work(t, secured, nothing, config, roots, rosterd.WithClientCertificate(client.certificatePEM, client.keyPEM)))
	})
	t.Run("files that the environment names", func(t *testing.T) {
		t.Setenv("ROSTERD_CA", file("ca.pem", nil))
		t.Setenv("ROSTERD_CERT", file("client.pem", client.certificatePEM))
		t.Setenv("ROSTERD_KEY", file("client.key", client.keyPEM))
		registered(work(t, secured, nothing, config))
	})
	for name, rejection := range map[string]struct {
		options []any
		remedy  string
	}{
		"an authority that is unknown": {[]any{rosterd.WithRootCertificates(other.certificatePEM), rosterd.WithCredential(secret)}, "ROSTERD_CA"},
		"no credential":                {[]any{roots}, "credential"},
		"a credential that is not valid": {
			[]any{roots, rosterd.WithCredential(secret[:len(secret)-4] + "AAAA")}, "credential",
		},
	} {
		t.Run("a worker is rejected for "+name, func(t *testing.T) {
			var rejected *rosterd.RejectedError
			err := work(t, secured, nothing, rejection.options...).ends()
			if !errors.As(err, &rejected) || !strings.Contains(err.Error(), rejection.remedy) || strings.Contains(err.Error(), secret) {
				t.Errorf("the error is %v", err)
			}
		})
	}
	t.Run("a coordinator that does not speak TLS is named as such", func(t *testing.T) {
		err := work(t, "https://"+serve(t).address, nothing).ends()
		if err == nil || !strings.Contains(err.Error(), "it does not speak TLS: use http://") {
			t.Errorf("the error is %v", err)
		}
	})
}
