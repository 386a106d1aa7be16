package proxy

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/transport"
	gitssh "github.com/go-git/go-git/v5/plumbing/transport/ssh"
	"github.com/go-git/go-git/v5/storage/memory"
	"golang.org/x/crypto/ssh"
)

// socksEnv makes the test program act as connect-proxy, which Argo CD calls, if that is not installed.
const socksEnv = "LAB_TEST_SOCKS"

func TestMain(m *testing.M) {
	if address := os.Getenv(socksEnv); address != "" {
		connectProxy(address, os.Args[1], os.Args[2])
		return
	}
	os.Exit(m.Run())
}

func connectProxy(address, host, port string) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	var n uint16
	_, _ = fmt.Sscan(port, &n)
	_, _ = conn.Write([]byte{5, 2, 0, 2})
	_, _ = conn.Write(append(append([]byte{5, 1, 0, 3, byte(len(host))}, host...), byte(n>>8), byte(n)))
	reply := make([]byte, 12)
	if _, err := io.ReadFull(conn, reply); err != nil || reply[3] != 0 {
		return
	}
	go func() { _, _ = io.Copy(conn, os.Stdin) }()
	_, _ = io.Copy(os.Stdout, conn)
}

// clientKey returns the engine's key.
func clientKey(t *testing.T) []byte {
	t.Helper()
	key, err := ClientKey("w")
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// sshEnv returns the environment of Argo CD's git, with additional options for ssh.
func sshEnv(t *testing.T, address string, options ...string) []string {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("ssh not found")
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, clientKey(t), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"ssh", "-F", "none", "-i", file, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"}
	for _, o := range options {
		args = append(args, "-o", o)
	}
	proxy := os.Args[0]
	if program, err := exec.LookPath("connect-proxy"); err == nil {
		proxy = program + " -S " + address + " -5"
	}
	args = append(args, "-o", "ProxyCommand='"+proxy+" %h %p'")
	return []string{"GIT_SSH_COMMAND=" + strings.Join(args, " "), socksEnv + "=" + address}
}

// commit pushes commits to the mirror over HTTP, each with an incompressible file of the given size.
func commit(t *testing.T, forge string, size int, subjects ...string) {
	t.Helper()
	work := t.TempDir()
	url := strings.Replace(forge, "http://", "http://"+user+":"+strings.ReplaceAll(password, "'", "%27")+"@", 1) + "/lab/gitops.git"
	if out, err := gitCommand(t, nil, "clone", "-q", url, work); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, s := range subjects {
		noise := make([]byte, size)
		_, _ = rand.Read(noise)
		if err := os.WriteFile(filepath.Join(work, "noise"), noise, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"add", "."}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "-m", s}, {"-c", "http.postBuffer=8388608", "push", "-q", "origin", "HEAD"}} {
			if out, err := gitCommand(t, nil, append([]string{"-C", work}, args...)...); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
}

func TestSSHMirror(t *testing.T) {
	forge := forge(t)
	l := startAll(t, mirrors(forge), Secrets{Webhook: "w", User: user, Password: password})
	env := sshEnv(t, l.SSH.Addr().String())
	for _, address := range []string{
		"git@github.test:acme/gitops.git", "git@GitHub.test:Acme/GitOps", "ssh://git@github.test/acme/gitops.git", "ssh://someone@github.test:2222/acme/gitops",
		"git@192.0.2.1:acme/gitops.git", "ssh://git@plain.test/acme/gitops/", "github.test:/acme/gitops.git",
	} {
		out, err := gitCommand(t, env, "ls-remote", "--symref", address)
		if err != nil || !strings.Contains(out, "ref: refs/heads/main\tHEAD") || !strings.Contains(out, "\trefs/heads/main") {
			t.Errorf("ls-remote %s: %v: %s", address, err, out)
		}
	}
	const address = "git@github.test:acme/gitops.git"
	const small, large = 10, 3 << 20 // more than an SSH window
	commit(t, forge, large, "second")
	for version, protocol := range map[string]string{"0": "0", "2": "2", "rekeyed": "2"} {
		t.Run(version, func(t *testing.T) {
			env := env
			if version == "rekeyed" {
				env = sshEnv(t, l.SSH.Addr().String(), "RekeyLimit=100K")
			}
			git := func(args ...string) string {
				t.Helper()
				out, err := gitCommand(t, env, append([]string{"-c", "protocol.version=" + protocol}, args...)...)
				if err != nil {
					t.Fatalf("git %q: %v: %s", args, err, out)
				}
				return out
			}
			to := t.TempDir()
			git("clone", "-q", address, to)
			commit(t, forge, small, "more", "most")
			git("-C", to, "fetch", "-q", "origin", "--tags", "--force", "--prune") // as Argo CD does
			if log := git("-C", to, "log", "-3", "--format=%s", "origin/main"); !strings.HasPrefix(log, "most\nmore\n") {
				t.Errorf("fetched %q", log)
			}
			git("-C", to, "fsck", "--strict")
			git("-C", to, "fetch", "origin") // up to date
			for i := range 40 {              // local commits, for a second round of negotiation
				git("-C", to, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
			}
			commit(t, forge, small, "last")
			if out := git("-C", to, "fetch", "origin"); !strings.Contains(out, "main") {
				t.Errorf("fetched %s", out)
			}
			if out, err := gitCommand(t, env, "-C", to, "push", "origin", "main:other"); err == nil || !strings.Contains(out, "is read-only") {
				t.Errorf("push: %v: %s", err, out)
			}
		})
	}
	for address, want := range map[string]string{
		"git@github.test:acme/other.git":   "acme/other.git of github.test is not mounted",
		"git@gitlab.test:acme/gitops.git":  "",
		"git@github.test:acme/gone.git":    "does not answer",
		"git@github.test:acme/it's me.git": "acme/it's me.git of github.test is not mounted",
	} {
		if out, err := gitCommand(t, env, "ls-remote", address); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: %s; want %q", address, err, out, want)
		}
	}
	cmd := exec.Command("sh", "-c", strings.TrimPrefix(env[0], "GIT_SSH_COMMAND=")+" git@github.test git-upload-archive acme/gitops.git")
	cmd.Env = append(os.Environ(), env[1])
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "supports only git fetch") {
		t.Errorf("git-upload-archive: %v: %s", err, out)
	}
}

// The mirror requires a password.
func TestSSHForgeUnauthorized(t *testing.T) {
	l := startAll(t, mirrors(forge(t)), Secrets{Webhook: "w"})
	if out, err := gitCommand(t, sshEnv(t, l.SSH.Addr().String()), "ls-remote", "git@github.test:acme/gitops.git"); err == nil || !strings.Contains(out, "answers with status 401") {
		t.Errorf("%v: %s", err, out)
	}
}

// Argo CD lists branches with go-git, which clones and fetches too.
func TestSSHGoGit(t *testing.T) {
	forge := forge(t)
	l := startAll(t, mirrors(forge), Secrets{Webhook: "w", User: user, Password: password})
	signer, err := ssh.ParsePrivateKey(clientKey(t))
	if err != nil {
		t.Fatal(err)
	}
	const address = "git@github.test:acme/gitops.git"
	proxy := transport.ProxyOptions{URL: "socks5://" + l.SSH.Addr().String()}
	auth := &gitssh.PublicKeys{User: "git", Signer: signer, HostKeyCallbackHelper: gitssh.HostKeyCallbackHelper{HostKeyCallback: ssh.InsecureIgnoreHostKey()}}
	remote := git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{address}})
	refs, err := remote.ListContext(t.Context(), &git.ListOptions{Auth: auth, ProxyOptions: proxy})
	if err != nil || len(refs) != 2 {
		t.Errorf("list: %v, %v", refs, err)
	}
	to := t.TempDir()
	commit(t, forge, 3<<20, "second")
	repository, err := git.PlainCloneContext(t.Context(), to, false, &git.CloneOptions{URL: address, Auth: auth, ProxyOptions: proxy})
	if err != nil {
		t.Fatal(err)
	}
	commit(t, forge, 10, "third")
	if err := repository.FetchContext(t.Context(), &git.FetchOptions{Auth: auth, ProxyOptions: proxy}); err != nil {
		t.Fatal(err)
	}
	if out, err := gitCommand(t, nil, "-C", to, "log", "--format=%s", "origin/main"); err != nil || out != "third\nsecond\nfirst\n" {
		t.Errorf("%q, %v", out, err)
	}
	remote = git.NewRemote(memory.NewStorage(), &config.RemoteConfig{Name: "origin", URLs: []string{"git@github.test:acme/other.git"}})
	if _, err := remote.ListContext(t.Context(), &git.ListOptions{Auth: auth, ProxyOptions: proxy}); err == nil || !strings.Contains(err.Error(), "is not mounted") {
		t.Errorf("not mounted: %v", err)
	}
}

func TestSocksRefused(t *testing.T) {
	l := startAll(t, mirrors("http://127.0.0.1:1"), Secrets{Webhook: "w"})
	for name, sent := range map[string]string{
		"version 4":    "\x04\x01\x00\x16",
		"bind":         "\x05\x01\x00\x05\x02\x00\x01\x01\x02\x03\x04\x00\x16",
		"address type": "\x05\x01\x00\x05\x01\x00\x07\x01\x02\x03\x04\x00\x16",
		"not mounted":  "\x05\x01\x00\x05\x01\x00\x01\x01\x02\x03\x04\x00\x16",
		"IPv6":         "\x05\x01\x00\x05\x01\x00\x04" + strings.Repeat("\x01", 16) + "\x00\x16",
	} {
		conn, err := net.Dial("tcp", l.SSH.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		_, _ = conn.Write([]byte(sent))
		if got, _ := io.ReadAll(conn); strings.Contains(string(got), "SSH-") || len(got) == 12 && got[3] == 0 {
			t.Errorf("%s: %q", name, got)
		}
		_ = conn.Close()
	}
}

// A client's wants and haves become one request, regardless of flush packets between them.
func TestNegotiate(t *testing.T) {
	const id = "0123456789012345678901234567890123456789"
	want, have := pktLine("want "+id+" ofs-delta\n"), pktLine("have "+id+"\n")
	for input, expected := range map[string]struct {
		request string
		naks    int
		fails   bool
	}{
		"":                                      {fails: true},
		want + flush + pktLine("done\n"):        {request: want + flush + pktLine("done\n")},
		want + flush + pktLine("done"):          {request: want + flush + pktLine("done")},
		want + flush + have + pktLine("done\n"): {request: want + flush + have + pktLine("done\n")},
		want + flush + have + flush + have + flush + pktLine("done\n"): {request: want + flush + have + have + pktLine("done\n"), naks: 2},
		want:                    {fails: true},
		want + flush + have:     {fails: true},
		"0003":                  {fails: true},
		"wxyz":                  {fails: true},
		"00":                    {fails: true},
		want + flush + "0009do": {fails: true},
	} {
		var request, output bytes.Buffer
		err := negotiate(bufio.NewReader(strings.NewReader(input)), &request, &output)
		got := request.String()
		if err == nil && got != expected.request || (err != nil) != expected.fails || output.String() != strings.Repeat("0008NAK\n", expected.naks) {
			t.Errorf("%q: request %q, output %q, %v", input, got, output.String(), err)
		}
	}
}

func FuzzPktLine(f *testing.F) {
	for _, seed := range []string{"", flush, "0004", "0005a", pktLine("want x\n") + flush + pktLine("done\n"), "ffffx", "-001", "00\x00\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bufio.NewReader(bytes.NewReader(data))
		var encoded []byte
		for {
			line, flushed, err := readPkt(r)
			if err != nil {
				break
			}
			if flushed {
				encoded = append(encoded, flush...)
			} else {
				encoded = append(encoded, pktLine(line)...)
			}
		}
		if !bytes.EqualFold(encoded, data[:len(encoded)]) {
			t.Errorf("%q: encoded as %q", data, encoded)
		}
		var request bytes.Buffer
		if err := negotiate(bufio.NewReader(bytes.NewReader(data)), &request, io.Discard); err == nil && request.Len() > len(data) {
			t.Errorf("%q: longer request %q", data, request.Bytes())
		}
	})
}
