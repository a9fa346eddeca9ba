package eventstream

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"flashsale.internal/pkg/httpserver"
)

const (
	eventTimeout = 10 * time.Second // of writing one event
	reconnectMS  = 2000             // delay before an EventSource reconnects
)

// Times are the times of a stream.
type Times struct {
	For       time.Duration // lifetime
	Heartbeat time.Duration // between two comments
}

// Source delivers the values of a stream.
type Source[T any] interface {
	Updates() <-chan T
	Done() <-chan struct{}
}

// Serve responds with the events of a stream until write reports the last one, its time is over, the user disconnects or
// the process stops. In the first two cases it writes event: end. write writes the events of a value, the first one
// before all others.
func Serve[T any](
	w http.ResponseWriter, r *http.Request, t Times, first T, s Source[T], write func(out *Writer, v T) (last bool),
) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // so that a reverse proxy does not buffer
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	httpserver.LiftDeadlines(w)
	out := &Writer{w: w, control: http.NewResponseController(w)}
	out.printf("retry: %d\n\n", reconnectMS)
	write(out, first)
	end := time.NewTimer(t.For)
	defer end.Stop()
	beat := time.NewTicker(t.Heartbeat)
	defer beat.Stop()
	for out.err == nil {
		select {
		case v := <-s.Updates():
			if write(out, v) {
				out.end()
				return
			}
		case <-beat.C:
			out.printf(": \n\n")
		case <-end.C:
			out.end()
			return
		case <-s.Done():
			return
		case <-r.Context().Done():
			return
		}
	}
}

// Writer writes server-sent events. After an error it writes nothing.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

// Event writes an event with data in JSON.
func (o *Writer) Event(name string, data any) {
	text, err := json.Marshal(data)
	if err != nil {
		o.err = err
		return
	}
	o.printf("event: %s\ndata: %s\n\n", name, text)
}

func (o *Writer) end() { o.printf("event: end\ndata: {}\n\n") }

func (o *Writer) printf(format string, args ...any) {
	if o.err != nil {
		return
	}
	// It fails in tests only, where there is no connection.
	_ = o.control.SetWriteDeadline(time.Now().Add(eventTimeout))
	if _, o.err = fmt.Fprintf(o.w, format, args...); o.err == nil {
		o.err = o.control.Flush()
	}
}
