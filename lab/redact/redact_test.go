package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// Canaries, of all shapes that lab knows, and of none.
const (
	jwt     = "eyJhbGciOiJSUzI1NiIsImtpZCI6IkNBTkFSWSJ9.eyJzdWIiOiJzeXN0ZW06c2VydmljZWFjY291bnQ6Y2FuYXJ5In0.c2lnbmF0dXJlLWNhbmFyeQ"
	github  = "ghp_C4naryC4naryC4naryC4naryC4naryC4nary"
	gitlab  = "glpat-C4nary-C4nary_C4nar"
	aws     = "AKIAC4NARYC4NARYC4NA"
	gitea   = "c4a4a7c4a4a7c4a4a7c4a4a7c4a4a7c4a4a7c4a4"
	free    = "Canary free of any shape 1"
	word    = "Kan4rienvogel"
	pemBody = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDcanaryCANARY1"
)

var pemKey = "-----BEGIN RSA PRIVATE KEY-----\n" + pemBody + "\n" + pemBody + "\n-----END RSA PRIVATE KEY-----\n"

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// planted are texts with a canary each, as they occur in logs, events and manifests.
var planted = map[string]struct{ text, canary string }{
	"Secret in JSON":               {`{"kind": "Secret", "data": {"anything": "` + b64(word) + `"}}`, word},
	"Secret with stringData":       {`{"kind": "Secret", "stringData": {"anything": "` + free + `"}}`, free},
	"Secret in YAML":               {"apiVersion: v1\nkind: Secret\ndata:\n  anything: " + b64(word) + "\n  other: " + b64("zwei") + "\n", b64(word)},
	"Secret in a list in YAML":     {"items:\n- data:\n    anything: " + b64(word) + "\n  kind: Secret\n", b64(word)},
	"Secret with lines in YAML":    {"kind: Secret\nstringData:\n  a: |\n    first " + word + "\n    second\n", word},
	"Secret applied":               {`{"kind":"Pod","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":` + quoted(`{"kind":"Secret","stringData":{"a":"`+word+`"}}`) + `}}}`, word},
	"Secret in a structured log":   {`2026-11-27 INFO applied {"level":"info","object":{"kind":"Secret","data":{"a":"` + b64(word) + `"}}} done`, b64(word)},
	"environment of a pod":         {`{"kind":"Pod","spec":{"containers":[{"name":"c","env":[{"name":"COLOUR","value":"` + word + `"}]}]}}`, word},
	"environment of a container":   {`[{"Name":"/c","Config":{"Env":["PATH=/bin","COLOUR=` + word + `"]}}]`, word},
	"environment as a map":         {`{"env":{"COLOUR":"` + word + `"}}`, word},
	"environment in YAML":          {"spec:\n  containers:\n  - env:\n    - name: COLOUR\n      value: " + word + "\n    image: x\n", word},
	"environment applied":          {`{"metadata":{"annotations":{"last-applied":` + quoted("spec:\n  env:\n  - name: COLOUR\n    value: "+free+"\n") + `}}}`, free},
	"bearer token":                 {"> GET /api\n> Authorization: Bearer " + word + word + "\n", word},
	"gitea's token":                {"Authorization: token " + gitea, gitea},
	"basic header":                 {"header authorization=[Basic " + b64("user:"+word) + "]", b64("user:" + word)},
	"web token":                    {"issued " + jwt + " to canary", jwt},
	"GitHub's token":               {"remote: " + github, github},
	"GitLab's token":               {"clone of " + gitlab + " failed", gitlab},
	"AWS key":                      {"credentials " + aws + " rejected", aws},
	"AWS secret":                   {"aws_secret_access_key = " + word + "/" + word, word},
	"password in a flag":           {"exec: server --db-password=" + word + " --verbose", word},
	"password in a spaced flag":    {"exec: server --db-password " + word + " --verbose", word},
	"password in curl":             {"curl -u admin:" + word + " http://x", word},
	"password in YAML":             {"a: 1\npassword: correct horse battery\nb: 2\n", "horse battery"},
	"password in lines":            {"passphrase: |\n  first " + word + "\n  second\nb: 2\n", word},
	"password in escaped JSON":     {`msg="got {\"password\":\"` + word + `\"}"`, word},
	"private key":                  {"reading\n" + pemKey + "done", pemBody},
	"private key in JSON":          {`{"msg":` + quoted(pemKey) + `}`, pemBody},
	"private key cut off":          {"reading\n-----BEGIN PRIVATE KEY-----\n" + pemBody + "\n" + pemBody, pemBody},
	"kubeconfig":                   {"users:\n- name: u\n  user:\n    client-certificate-data: AAAA\n    client-key-data: " + b64(pemKey) + "\n", b64(pemKey)[:60]},
	"kubeconfig's token":           {"users:\n- name: u\n  user: {token: " + word + "}\n", word},
	"kubeconfig in JSON":           {`{"users":[{"user":{"client-key-data":"` + b64(word+word) + `"}}]}`, b64(word)[:16]},
	"Argo CD's cluster":            {`{"kind":"x","config":` + quoted(`{"bearerToken":"`+word+`","tlsClientConfig":{"keyData":"`+b64(free)+`"}}`) + `}`, word},
	"URL with a password":          {"fatal: unable to access https://user:" + word + "@git.example.com/a.git", word},
	"URL with a token":             {"fatal: unable to access https://" + github + "@git.example.com/a.git", github},
	"URL in JSON":                  {`{"repo":"https://user:` + word + `@git.example.com/a.git"}`, word},
	"docker's auths":               {`{"auths":{"registry.example.com":{"auth":"` + b64("user:"+word) + `"}}}`, b64("user:" + word)},
	"docker's auths in a log":      {`pull with {"auths":{"registry.example.com":{"auth":"` + b64("user:"+word) + `"}}}`, b64("user:" + word)},
	"kubeadm's token":              {"kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef --discovery", "0123456789abcdef"},
	"base64 of a token":            {"payload " + b64("x "+github+" y"), b64("x " + github)[:20]},
	"base64 after a path":          {"payload at/path-of/" + b64("x "+github+" y"), b64("x " + github)[:20]},
	"base64 of a kubeconfig":       {`{"value":"` + b64("users:\n- user:\n    token: "+word+"\n") + `"}`, b64("users:\n- user:\n    token: " + word)[40:52]},
	"base64 twice":                 {"payload " + b64(b64("password="+word)), b64(b64("password=" + word))[8:24]},
	"base64 in lines":              {"payload\n" + wrapped(b64("harmless words first, a lot of them, so that there are lines: "+pemKey)) + "\nend", b64("harmless words first, a lot of them, so that there are lines: " + pemKey)[80:140]},
	"URL encoding of a token":      {"q=" + url.QueryEscape("password="+word), word},
	"hex of a token":               {"raw " + hex.EncodeToString([]byte("token="+word)), hex.EncodeToString([]byte(word))},
	"variable in YAML, in a flow":  {"spec:\n  env: [{name: COLOUR, value: " + word + "}]\n", word},
	"parameter with a telling key": {`{"parameters":[{"name":"db.password","value":"` + word + `"}]}`, word},
	"cookie":                       {"Set-Cookie: i_like_gitea=" + word + "; Path=/", word},
}

func quoted(s string) string {
	out, _ := json.Marshal(s)
	return string(out)
}

func wrapped(s string) string {
	return strings.TrimSpace(regexp.MustCompile(`.{1,76}`).ReplaceAllString(s, "$0\n"))
}

// Each canary is gone from where it stands, in a file of JSON and in a log.
func TestPlanted(t *testing.T) {
	for name, c := range planted {
		for _, file := range []string{"a.json", "a.log"} {
			if got := string(New().File(file, []byte(c.text))); strings.Contains(got, c.canary) || !strings.Contains(got, Mark) {
				t.Errorf("%s in %s: %s", name, file, got)
			}
			if got := string(New().File(file, []byte("first line\n"+c.text+"\nlast line\n"))); strings.Contains(got, c.canary) ||
				!strings.Contains(got, "first line") || !strings.Contains(got, "last line") {
				t.Errorf("%s among lines in %s: %s", name, file, got)
			}
		}
	}
}

// What a file says is secret is redacted in others, in every encoding.
func TestKnownInEveryEncoding(t *testing.T) {
	for name, from := range map[string]string{
		"a Secret": `{"kind":"Secret","data":{"a":"` + b64(word) + `"}}`, "an environment": `{"env":[{"name":"COLOUR","value":"` + word + `"}]}`,
		"a header": "Authorization: Bearer " + word, "docker's auths": `{"auths":{"r":{"auth":"` + b64("u:"+word) + `"}}}`, "a URL": "https://u:" + word + "@example.com/",
		"a key": `{"password":"` + word + `"}`, "a Secret in YAML": "kind: Secret\ndata:\n  a: " + b64(word) + "\n",
		"a document in a Secret": `{"kind":"Secret","stringData":{"c.yaml":"users:\n- thing: ` + word + `\n"}}`,
	} {
		r := New()
		r.Learn("x.json", []byte(from))
		for encoding, text := range map[string]string{
			"verbatim": word, "base64": b64(word), "base64 behind one": b64("a" + word + "zz"), "base64 behind two": b64("ab" + word + "zz"),
			"hex": hex.EncodeToString([]byte(word)), "percent": everyByte(word), "base64 of binary": b64("\x00\x01" + word + "\xff\xfe\xfd"),
		} {
			got := string(r.File("b.log", []byte("it says "+text+" and ends")))
			if !strings.Contains(got, Mark) || strings.Contains(got, text) || !strings.HasPrefix(got, "it says ") || !strings.HasSuffix(got, " and ends") {
				t.Errorf("%s, %s: %s", name, encoding, got)
			}
		}
	}
	awkward := "p\"a/s&s<w>ö\\rd 1%"
	r := New(awkward)
	for _, text := range []string{awkward, quoted(awkward), url.QueryEscape(awkward), url.PathEscape(awkward), fmt.Sprintf("%q", quoted(awkward))} {
		if got := string(r.File("b.log", []byte("x="+text))); !strings.Contains(got, Mark) {
			t.Errorf("%s stays: %s", text, got)
		}
	}
}

// A report must stay readable.
func TestHarmless(t *testing.T) {
	for _, text := range []string{
		`Warning  Failed  MountVolume.SetUp failed for volume "certs": secret "argocd-secret" not found`,
		"reconciled commit 3f786850e387550fdab836ed7e6dc881de23001b of refs/heads/main at https://git.example.com/team/app.git",
		"image quay.io/argoproj/argocd@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 pulled",
		"Back-off restarting failed container app in pod app-7d4b9c6f5-x2x9z_default(6b1f4c1e-4d5a-4c0e-9b7e-0a1b2c3d4e5f)",
		"ssh://git@github.com/team/app.git: tokens are read from secretName: repo-creds, key: password",
		"  automountServiceAccountToken: true\n  tokenPath: /var/run/secrets/token\n  passwordFile: /etc/pw\n",
		"time=\"2026-11-27T02:00:00Z\" level=info msg=\"Reconciliation completed\" application=argocd/podinfo dedup_ms=0",
		"kind: ConfigMap\ndata:\n  colour: blue\n---\nkind: Deployment\nspec:\n  replicas: 2\n",
		"/apis/apps/v1/namespaces/kube-system/deployments/coredns?timeout=32s",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
		"port 6443 user admin, basic checks passed, bearer of bad news",
	} {
		if got := string(New().File("a.log", []byte(text))); got != text {
			t.Errorf("%s\nbecame\n%s", text, got)
		}
	}
	document := "{\n  \"a\": 9007199254740993,\n  \"image\": \"x@y\",\n  \"secretName\": \"repo-creds\"\n}\n"
	if got := string(New().File("a.json", []byte(document))); got != document {
		t.Error(got)
	}
	r := New()
	r.Learn("a.json", []byte(`{"kind":"Secret","stringData":{"name":"hub","server":"https://hub:6443","type":"git","username":"admin","tls.crt":"-----BEGIN CERTIFICATE-----x"}}`))
	r.Learn("b.json", []byte(`{"env":[{"name":"MODE","value":"production"},{"name":"DIR","value":"/var/lib/app"},{"name":"ADDR","value":"redis.default.svc:6379"},{"name":"PULL_SECRET","value":"registry-login"}]}`))
	text := "hub at https://hub:6443 by git as admin in production, /var/lib/app, redis.default.svc:6379, registry-login"
	if got := string(r.File("a.log", []byte(text))); got != text {
		t.Error(got)
	}
}

// No text makes it crash or loop, and what is known does not survive.
func FuzzFile(f *testing.F) {
	for _, c := range planted {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := New(word)
		for _, name := range []string{"a.json", "a.log"} {
			if got := string(r.File(name, []byte(text+" "+word))); strings.Contains(got, word) {
				t.Errorf("%q became %q", text, got)
			}
		}
	})
}
