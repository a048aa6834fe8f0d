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
	waiting map[string]chan struct{} // by path, closed at the next event
}

// newWatch returns a watch that ends with the context.
func newWatch(ctx context.Context) *watch {
	w := &watch{waiting: map[string]chan struct{}{}}
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		return w
	}
	w.notify = notify
	go w.dispatch(ctx)
	return w
}

// file returns a channel that is closed when the file is touched after this
// call. A record is replaced by rename, which takes the watched inode away, so
// each call watches what is at the path now. The directory is not watched: a
// job that prints much would wake us with every line.
func (w *watch) file(path string) (changed <-chan struct{}, watched bool) {
	if w.notify == nil {
		return nil, false
	}
	w.mu.Lock()
	c := w.waiting[path]
	if c == nil {
		c = make(chan struct{})
		w.waiting[path] = c
	}
	w.mu.Unlock()
	w.notify.Remove(path) // the inode may be gone already
	if w.notify.Add(path) != nil {
		return nil, false
	}
	return c, true
}

func (w *watch) dispatch(ctx context.Context) {
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
	if c := w.waiting[path]; c != nil {
		close(c)
		delete(w.waiting, path)
	}
}

func (w *watch) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, c := range w.waiting {
		close(c)
		delete(w.waiting, path)
	}
}
