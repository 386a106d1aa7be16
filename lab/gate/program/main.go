// Command gate runs a web server that listens on the container's loopback address only, and forwards the requests whose Host header names the container or this
// machine. It uses only the standard library, as it is compiled as a separate module where no registry has its image.
package main

import (
	"context"
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
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", ":3000", "`address` for clients")
	to := flag.String("to", "127.0.0.1:3001", "`address` of the command's server")
	hosts := flag.String("hosts", "localhost,127.0.0.1", "`names` that the Host header may have, regardless of the port")
	flag.Parse()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	err := run(*listen, *to, strings.Split(*hosts, ","), flag.Args(), log)
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
func run(listen, to string, hosts, command []string, log *slog.Logger) error {
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
		Handler: guard(hosts, to), ReadHeaderTimeout: slowHeader, IdleTimeout: idle, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
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

// guard forwards requests with one of the hosts, unchanged.
func guard(hosts []string, to string) http.Handler {
	proxy := &httputil.ReverseProxy{
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
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower(strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), "."))
		if !slices.Contains(hosts, name) {
			http.Error(w, "lab: unknown host name of the Git server", http.StatusMisdirectedRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}
