package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// wire is one kept-alive HTTP/1.1 connection for measurements. It writes the bytes of a request as they are and parses
// only what a measurement needs of the response. net/http's client does more than its server: on a small machine it
// would use as much processor time as the server under test. wire supports no redirects, no chunks and no pipelining.
type wire struct {
	addr    string
	timeout time.Duration // of one exchange; may be exceeded by a second
	conn    net.Conn
	bounded time.Time // when the deadline of conn was last set
	buf     []byte
	have    int    // bytes read into buf
	head    []byte // of the last response, each line ended by CRLF; valid until the next call
}

const (
	maxResponse = 1 << 20
	dialTimeout = 5 * time.Second
)

var (
	errChunked  = errors.New("response is chunked, which this client does not support")
	errResponse = errors.New("response is not valid HTTP/1.1")
	headEnd     = []byte("\r\n\r\n")
)

func newWire(addr string, timeout time.Duration) *wire {
	return &wire{addr: addr, timeout: timeout, buf: make([]byte, 4096)}
}

func (w *wire) dial(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", w.addr)
	if err != nil {
		return err
	}
	w.conn, w.bounded, w.have = conn, time.Time{}, 0
	return nil
}

func (w *wire) close() {
	if w.conn != nil {
		_ = w.conn.Close()
		w.conn = nil
	}
}

// exchange sends a request and reads its response; body is valid until the next call. After an error the connection is
// closed and the outcome of the request is unknown.
func (w *wire) exchange(ctx context.Context, request []byte, now time.Time) (status int, body []byte, err error) {
	if err := w.dial(ctx); err != nil {
		return 0, nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	// Setting a deadline costs as much as a system call, so it is set once a second.
	if now.Sub(w.bounded) > time.Second {
		if err := w.conn.SetDeadline(now.Add(w.timeout + time.Second)); err != nil {
			return 0, nil, err
		}
		w.bounded = now
	}
	if _, err := w.conn.Write(request); err != nil {
		return 0, nil, err
	}
	return w.response()
}

func (w *wire) response() (status int, body []byte, err error) {
	w.have = 0
	head := -1
	for head < 0 {
		if err := w.read(); err != nil {
			return 0, nil, err
		}
		head = bytes.Index(w.buf[:w.have], headEnd)
	}
	w.head = w.buf[:head+2]
	status, length, last, err := parseHead(w.head)
	if err != nil {
		return 0, nil, err
	}
	from := head + len(headEnd)
	for w.have < from+length {
		if err := w.read(); err != nil {
			return 0, nil, err
		}
	}
	if w.have > from+length {
		return 0, nil, fmt.Errorf("%w: %d bytes follow the body", errResponse, w.have-from-length)
	}
	body = w.buf[from : from+length]
	if last {
		w.close()
	}
	return status, body, nil
}

// read reads more bytes of the response.
func (w *wire) read() error {
	if w.have == len(w.buf) {
		if len(w.buf) >= maxResponse {
			return fmt.Errorf("response is longer than %d bytes", maxResponse)
		}
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
	n, err := w.conn.Read(w.buf[w.have:])
	w.have += n
	if n > 0 {
		return nil
	}
	return err
}

// parseHead parses the status line and the headers that a measurement needs; each line ends with CRLF.
func parseHead(head []byte) (status, length int, last bool, err error) {
	line, rest, _ := bytes.Cut(head, []byte("\r\n"))
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, 0, false, errResponse
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, 0, false, errResponse
	}
	length = -1
	for len(rest) > 0 {
		line, rest, _ = bytes.Cut(rest, []byte("\r\n"))
		switch {
		case hasName(line, "Content-Length:"):
			value := string(bytes.TrimSpace(line[len("Content-Length:"):]))
			if length, err = strconv.Atoi(value); err != nil || length < 0 || length > maxResponse {
				return 0, 0, false, fmt.Errorf("%w: %q", errResponse, line)
			}
		case hasName(line, "Transfer-Encoding:"):
			return 0, 0, false, errChunked
		case hasName(line, "Connection:"):
			last = bytes.EqualFold(bytes.TrimSpace(line[len("Connection:"):]), []byte("close"))
		}
	}
	switch {
	case status == 204 || status == 304:
		length = 0
	case length < 0:
		return 0, 0, false, fmt.Errorf("%w: no Content-Length", errResponse)
	}
	return status, length, last, nil
}

func hasName(line []byte, name string) bool {
	return len(line) >= len(name) && line[0]|0x20 == name[0]|0x20 && bytes.EqualFold(line[:len(name)], []byte(name))
}
