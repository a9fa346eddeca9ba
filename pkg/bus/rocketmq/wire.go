package rocketmq

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The few requests for which the client library has no call that is bounded, uncached and tells the answer's code.
const (
	askCreateTopic   = 17
	askConsumers     = 38
	askRouteOfTopic  = 105
	answerOK         = 0
	answerNoTopic    = 17
	protocolVersion  = 317 // the client library's
	maxFrame         = 16 << 20
	responseTypeFlag = 1
)

// link is a connection to a name server or broker that carries one request at a time.
type link struct {
	conn net.Conn
	seq  int32
}

type command struct {
	Code      int               `json:"code"`
	Language  string            `json:"language"`
	Version   int               `json:"version"`
	Opaque    int32             `json:"opaque"`
	Flag      int               `json:"flag"`
	Remark    string            `json:"remark,omitempty"`
	ExtFields map[string]string `json:"extFields,omitempty"`
}

type answer struct {
	code   int
	remark string
	body   []byte
}

func dial(ctx context.Context, addr string) (*link, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &link{conn: conn}, nil
}

func (l *link) close() { _ = l.conn.Close() } // nothing is lost with it

// ask sends one request and returns the answer to it. After an error the link is of no more use.
func (l *link) ask(ctx context.Context, code int, fields map[string]string) (answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	l.seq++
	header, err := json.Marshal(command{Code: code, Language: "GO", Version: protocolVersion, Opaque: l.seq, ExtFields: fields})
	if err != nil {
		return answer{}, err
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(header)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(header))) // its top byte, 0, says that the header is JSON
	if _, err := l.conn.Write(append(frame, header...)); err != nil {
		return answer{}, err
	}
	for {
		got, body, err := l.read()
		if err != nil {
			return answer{}, err
		}
		if got.Flag&responseTypeFlag != 0 && got.Opaque == l.seq {
			return answer{code: got.Code, remark: got.Remark, body: body}, nil
		}
	}
}

func (l *link) read() (command, []byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(l.conn, size[:]); err != nil {
		return command{}, nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < 4 || n > maxFrame {
		return command{}, nil, fmt.Errorf("a frame of %d bytes is not RocketMQ's", n)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(l.conn, frame); err != nil {
		return command{}, nil, err
	}
	h := binary.BigEndian.Uint32(frame) & 0xffffff
	if h > n-4 {
		return command{}, nil, errors.New("a header longer than its frame is not RocketMQ's")
	}
	var c command
	if err := json.Unmarshal(frame[4:4+h], &c); err != nil {
		return command{}, nil, fmt.Errorf("header: %w", err)
	}
	return c, frame[4+h:], nil
}
