// Command gate runs a web server that listens on the container's loopback address only, and forwards the requests whose Host header names the container or this
// machine. It uses only the standard library, as it is compiled as a separate module where no registry has its image.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":3000", "`address` for clients")
	to := flag.String("to", "127.0.0.1:3001", "`address` of the command's server")
	hosts := flag.String("hosts", "localhost,127.0.0.1", "`names` that the Host header may have, regardless of the port")
	guests := flag.String("guests", "", "`file` with the accounts that may only do what it lists; it may be missing, and may change")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	err := run(*listen, guard(strings.Split(*hosts, ","), admit(*guests, forward(*to))), flag.Args(), log)
	var ended *exec.ExitError
	switch {
	case errors.As(err, &ended) && ended.ExitCode() > 0:
		os.Exit(ended.ExitCode())
	case err != nil:
		log.Error("gate ends", "error", err)
		os.Exit(1)
	}
}

// run serves until the command ends. Signals are the command's.
func run(listen string, handler http.Handler, command []string, log *slog.Logger) error {
	if len(command) == 0 {
		return errors.New("no command to run")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", listen)
	if err != nil {
		return err
	}
	const slowHeader, idle = 10 * time.Second, 2 * time.Minute
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: slowHeader, IdleTimeout: idle, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	defer server.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return errors.Join(err, l.Close())
	}
	ended, served := make(chan error, 1), make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	go func() { served <- server.Serve(l) }()
	for {
		select {
		case s := <-signals:
			if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
				return err
			}
		case err := <-served: // a server without its gate is of no use
			return errors.Join(err, cmd.Process.Kill())
		case err := <-ended:
			return err
		}
	}
}

// forward forwards requests unchanged.
func forward(to string) http.Handler {
	return &httputil.ReverseProxy{
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Minute, ExpectContinueTimeout: time.Second},
		FlushInterval: -1, // Git's progress
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: to})
			r.Out.Host = r.In.Host // addresses in answers follow it
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "lab: the Git server does not answer", http.StatusBadGateway)
		},
	}
}

// guard lets requests with one of the hosts through.
func guard(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower(strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), "."))
		if !slices.Contains(hosts, name) {
			http.Error(w, "lab: unknown host name of the Git server", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// guest is an account whose rights in Gitea are wider than what it is for. Its password is the gate's; Gitea knows its token alone, which nobody else has.
type guest struct {
	User     string
	Password string
	Token    string
	May      []string // "METHOD PATTERN", of whole paths as in package path
}

// admit lets a guest do what it may, as whoever Gitea knows it as. It leaves the requests of others as they are.
func admit(file string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		var guests []guest
		if text, err := os.ReadFile(file); err == nil && user != "" {
			err = json.Unmarshal(text, &guests)
			if err != nil {
				guests = nil
			}
		}
		i := slices.IndexFunc(guests, func(g guest) bool { return g.User == user })
		switch {
		case i < 0:
		case subtle.ConstantTimeCompare([]byte(guests[i].Password), []byte(password)) == 0 || password == "":
			http.Error(w, "lab: wrong password", http.StatusUnauthorized)
			return
		case !guests[i].may(r):
			http.Error(w, "lab: this account may not do that", http.StatusForbidden)
			return
		default:
			r = r.Clone(r.Context())
			r.SetBasicAuth(user, guests[i].Token)
		}
		next.ServeHTTP(w, r)
	})
}

// may reports whether a guest may make a request. Paths that a server might read in another way are nobody's.
func (g guest) may(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) != escaped || strings.Contains(r.URL.Path, "\\") || strings.Contains(strings.ToLower(escaped), "%2f") || strings.ContainsFunc(r.URL.Path, func(c rune) bool { return c < ' ' }) ||
		r.Header.Get("X-HTTP-Method-Override") != "" {
		return false
	}
	return slices.ContainsFunc(g.May, func(may string) bool {
		method, pattern, _ := strings.Cut(may, " ")
		matches, err := path.Match(pattern, escaped)
		return err == nil && matches && method == r.Method
	})
}
