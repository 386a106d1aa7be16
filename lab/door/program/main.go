// Command door serves the names of a lab. It watches the clusters that its configuration lists, and reads the configuration again when the file changes.
package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"homelab/lab/door/authority"
	"homelab/lab/door/entrance"
	"homelab/lab/door/proxy"
	"homelab/lab/door/via"
	"homelab/lab/door/watch"
)

func main() {
	dir := flag.String("config", "/etc/door", "`folder` with "+settingsFile+" and "+reachFile)
	every := flag.Duration("reload", time.Second, "`interval` at which they are read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if err := run(ctx, *dir, *every, map[int]bool{proxy.HTTPS: true, proxy.HTTP: false}, dialer(), log); err != nil {
		log.Error("door ends", "error", err)
		os.Exit(1)
	}
}

// dialer connects to a node, or through it.
func dialer() proxy.Dialer {
	router := via.New()
	return func(ctx context.Context, c proxy.Cluster, ip string, port int) (net.Conn, error) {
		if ip == "" {
			return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(c.Node, strconv.Itoa(port)))
		}
		return router.Dial(ctx, c.Name, c.Node, ip, port)
	}
}

// The files of the configuration
const (
	settingsFile = "settings.json"
	reachFile    = "reach.json"
)

// run serves on ports, which map to whether they are secure, and on those of the configuration.
func run(ctx context.Context, dir string, every time.Duration, ports map[int]bool, dial proxy.Dialer, log *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	data, c, a, err := read(dir)
	if err != nil {
		return err
	}
	d := &door{server: proxy.New(c, a, dial, log), log: log, listening: map[int]bool{}, watched: map[string]*watched{}}
	for port, secure := range ports {
		if err := d.listen(ctx, port, secure); err != nil {
			return err
		}
	}
	d.configure(ctx, c, a)
	log.Info("door serves", "domain", c.Domain, "https", c.HTTPS, "http", c.HTTP, "clusters", len(c.Clusters))
	var group sync.WaitGroup
	group.Go(func() { d.reload(ctx, dir, every, data) })
	group.Go(func() { d.address(ctx) })
	err = d.server.Serve(ctx)
	cancel()
	group.Wait()
	d.running.Wait()
	return err
}

// read returns the files as one text, to notice a change, and the configuration. The second file may not exist yet.
func read(dir string) (string, proxy.Config, *authority.Authority, error) {
	settings, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return "", proxy.Config{}, nil, err
	}
	reach, err := os.ReadFile(filepath.Join(dir, reachFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", proxy.Config{}, nil, err
	}
	c, a, err := proxy.Parse(settings, reach)
	return string(settings) + "\n" + string(reach), c, a, err
}

// door joins watchers and server.
type door struct {
	server  *proxy.Server
	log     *slog.Logger
	running sync.WaitGroup

	mu        sync.Mutex
	listening map[int]bool // ports
	config    proxy.Config
	watched   map[string]*watched // by cluster
	table     *entrance.Table
}

// watched is a cluster that is being watched.
type watched struct {
	config  proxy.Cluster
	watcher *watch.Watcher
	seen    watch.Seen
	stop    context.CancelFunc
}

// reload applies the configuration whenever the file changes. A file that cannot be read changes nothing.
func (d *door) reload(ctx context.Context, dir string, every time.Duration, last string) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		text, c, a, err := read(dir)
		if text == last || text == "" {
			continue
		}
		last = text
		if err != nil {
			d.log.Error("the configuration is not used", "error", err)
			continue
		}
		d.configure(ctx, c, a)
		d.log.Info("configured", "https", c.HTTPS, "http", c.HTTP, "clusters", len(c.Clusters))
	}
}

// listen serves on a port of the container.
func (d *door) listen(ctx context.Context, port int, secure bool) error {
	if d.listening[port] {
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err == nil {
		d.listening[port] = true
		d.server.Listen(l, secure)
	}
	return err
}

// configure watches the clusters of a configuration, and no others.
func (d *door) configure(ctx context.Context, c proxy.Config, a *authority.Authority) {
	d.server.Configure(c, a)
	d.mu.Lock()
	defer d.mu.Unlock()
	for port, secure := range map[int]bool{c.HTTPS: true, c.HTTP: false} {
		if err := d.listen(ctx, port, secure); err != nil {
			d.log.Error("the port is not served in the network", "port", port, "error", err)
		}
	}
	next := map[string]*watched{}
	for _, cl := range c.Clusters {
		if w := d.watched[cl.Name]; w != nil && w.config == cl {
			next[cl.Name] = w
			delete(d.watched, cl.Name)
			continue
		}
		watcher, err := watch.New(watch.API{Server: cl.Server, CA: []byte(cl.CA), Token: cl.Token})
		if err != nil { // was checked by Parse
			d.log.Error("cluster is not watched", "cluster", cl.Name, "error", err)
			continue
		}
		within, stop := context.WithCancel(ctx)
		w := &watched{config: cl, watcher: watcher, stop: stop}
		if was := d.watched[cl.Name]; was != nil { // until the first answer
			w.seen.Cluster = was.seen.Cluster
		}
		next[cl.Name] = w
		d.running.Go(func() { watcher.Run(within, cl.Name, func(s watch.Seen) { d.update(w, s) }) })
	}
	for _, w := range d.watched {
		w.stop()
	}
	d.config, d.watched = c, next
	d.show()
}

func (d *door) update(w *watched, s watch.Seen) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.Error != nil && w.seen.Error == nil {
		d.log.Warn("cluster cannot be read", "cluster", w.config.Name, "error", s.Error)
	}
	w.seen = s
	d.show()
}

// show derives the table from what was seen.
func (d *door) show() {
	var clusters []entrance.Cluster
	states := map[string]proxy.ClusterState{}
	for name, w := range d.watched {
		c := w.seen.Cluster
		c.Name = name
		clusters = append(clusters, c)
		state := proxy.ClusterState{Read: w.seen.Read}
		if w.seen.Error != nil {
			state.Error = w.seen.Error.Error()
		}
		states[name] = state
	}
	d.table = entrance.Build(d.config.Domain, clusters)
	d.server.Show(d.table, states)
}

// addressEvery is how often missing addresses are written, addressRetry the pause after a failure.
const (
	addressEvery = 500 * time.Millisecond
	addressRetry = 10 * time.Second
)

// unwritten returns the addresses that clusters lack, and the clusters' watchers.
func (d *door) unwritten() ([]entrance.Address, map[string]*watch.Watcher) {
	d.mu.Lock()
	defer d.mu.Unlock()
	watchers := map[string]*watch.Watcher{}
	var list []entrance.Address
	for _, a := range d.table.Addresses {
		if w := d.watched[a.Cluster]; w != nil && w.seen.Read && w.seen.Error == nil {
			list, watchers[a.Cluster] = append(list, a), w.watcher
		}
	}
	return list, watchers
}

// address writes addresses into the status of objects.
func (d *door) address(ctx context.Context) {
	tick := time.NewTicker(addressEvery)
	defer tick.Stop()
	failed := map[entrance.Address]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, watchers := d.unwritten()
		for _, a := range list {
			if time.Since(failed[a]) < addressRetry {
				continue
			}
			delete(failed, a)
			if err := watchers[a.Cluster].Write(ctx, a); err != nil && ctx.Err() == nil {
				failed[a] = time.Now()
				d.log.Warn("no address", "cluster", a.Cluster, "resource", a.Resource, "namespace", a.Namespace, "name", a.Name, "error", err)
			}
		}
	}
}
