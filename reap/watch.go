package reap

import (
	"context"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// watch tells when files are replaced. A watch that cannot be had, on a
// system or a file system that does not tell, only means more looking.
type watch struct {
	notify *fsnotify.Watcher // nil if there is none

	mu      sync.Mutex
	waiting map[string]*turn // by path, until the next event
	known   map[string]bool  // paths that were added before
}

// turn lasts until a file is touched.
type turn struct {
	context.Context
	end context.CancelFunc
}

func newWatch() *watch {
	w := &watch{waiting: map[string]*turn{}, known: map[string]bool{}}
	w.notify, _ = fsnotify.NewWatcher()
	return w
}

// file returns a context that ends when the file is touched after this call,
// and with ctx. A record is replaced by rename, which takes the watched inode
// away, so each call watches what is at the path now. The directory is not
// watched: a job that prints much would wake us with every line.
func (w *watch) file(ctx context.Context, path string) (changed context.Context, watched bool) {
	if w.notify == nil {
		return ctx, false
	}
	w.mu.Lock()
	t := w.waiting[path]
	if t == nil {
		t = new(turn)
		t.Context, t.end = context.WithCancel(ctx)
		w.waiting[path] = t
	}
	again := w.known[path]
	w.known[path] = true
	w.mu.Unlock()
	if again {
		w.notify.Remove(path) // the inode may be gone already
	}
	if w.notify.Add(path) != nil {
		return ctx, false
	}
	return t, true
}

// dispatch passes on what the system tells until ctx is done.
func (w *watch) dispatch(ctx context.Context) {
	if w.notify == nil {
		return
	}
	defer w.notify.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.notify.Events:
			if !ok {
				return
			}
			w.wake(e.Name)
		case _, ok := <-w.notify.Errors:
			if !ok {
				return
			}
			w.wakeAll() // events were lost: look at everything
		}
	}
}

func (w *watch) wake(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t := w.waiting[path]; t != nil {
		t.end()
		delete(w.waiting, path)
	}
}

func (w *watch) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, t := range w.waiting {
		t.end()
		delete(w.waiting, path)
	}
}
