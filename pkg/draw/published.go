package draw

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxBeaconBytes bounds a beacon.
const MaxBeaconBytes = 128

// MaxPublishedBytes bounds the JSON of a published draw.
const MaxPublishedBytes = 64 << 10

// Published is a draw as it is published, step by step: KeySHA256 when the room opens, Root, EarlyTickets and Beacon
// when early joining has closed, Key and Seed at the start. Fields that are not yet published are nil.
type Published struct {
	ActivityID   string `json:"activity_id"`
	KeySHA256    Hash   `json:"key_sha256"`
	Root         *Hash  `json:"root,omitempty"`
	EarlyTickets *int64 `json:"early_tickets,omitempty"`
	Beacon       Beacon `json:"beacon,omitempty"`
	Key          *Hash  `json:"key,omitempty"`
	Seed         *Hash  `json:"seed,omitempty"`
	TicketsURL   string `json:"tickets_url,omitempty"`
}

// Beacon is public randomness from after the closing of early joining. Its text is hexadecimal.
type Beacon []byte

// MarshalText returns hexadecimal digits in lower case.
func (b Beacon) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, b), nil }

// UnmarshalText accepts at most MaxBeaconBytes, as hexadecimal digits.
func (b *Beacon) UnmarshalText(text []byte) error {
	if len(text) > 2*MaxBeaconBytes {
		return fmt.Errorf("a beacon has at most %d bytes", MaxBeaconBytes)
	}
	decoded, err := hex.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("beacon: %w", err)
	}
	*b = decoded
	return nil
}

// KeyHash returns the commitment to a key, which is published before the first ticket.
func KeyHash(key Hash) Hash { return sha256.Sum256(key[:]) }

// ParsePublished parses the JSON of a published draw. It ignores members that it does not recognise.
func ParsePublished(r io.Reader) (Published, error) {
	b, err := io.ReadAll(io.LimitReader(r, MaxPublishedBytes+1))
	if err != nil {
		return Published{}, fmt.Errorf("read the draw: %w", err)
	}
	if len(b) > MaxPublishedBytes {
		return Published{}, fmt.Errorf("a draw has at most %d bytes", MaxPublishedBytes)
	}
	var p Published
	if err := json.Unmarshal(b, &p); err != nil {
		return Published{}, fmt.Errorf("parse the draw: %w", err)
	}
	if p.EarlyTickets != nil && (*p.EarlyTickets < 0 || *p.EarlyTickets > MaxTickets) {
		return Published{}, fmt.Errorf("a draw has at most %d tickets, not %d", MaxTickets, *p.EarlyTickets)
	}
	return p, nil
}

// ParseTickets parses the published tickets: one commitment on a line, in the order of their sequence numbers. The last
// line ends with a line feed, too.
func ParseTickets(r io.Reader) ([]Hash, error) {
	var tickets []Hash
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			return tickets, nil
		}
		if err != nil {
			return nil, fmt.Errorf("ticket %d: %w", len(tickets)+1, noEOF(err))
		}
		if len(tickets) == MaxTickets {
			return nil, fmt.Errorf("a draw has at most %d tickets", MaxTickets)
		}
		h, err := ParseHash(string(line[:len(line)-1]))
		if err != nil {
			return nil, fmt.Errorf("ticket %d: %w", len(tickets)+1, err)
		}
		tickets = append(tickets, h)
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// WriteTickets writes commitments as ParseTickets reads them.
func WriteTickets(w io.Writer, tickets []Hash) error {
	out := bufio.NewWriterSize(w, 64<<10)
	line := make([]byte, 0, 2*HashBytes+1)
	for _, t := range tickets {
		if _, err := out.Write(append(hex.AppendEncode(line, t[:]), '\n')); err != nil {
			return err
		}
	}
	return out.Flush()
}

// Mismatch is a published value that the rest of the published draw contradicts.
type Mismatch struct {
	What            string
	Published, Want string // Want is what the other data lead to
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s does not match: published %s, computed %s", m.What, m.Published, m.Want)
}

// Verify checks a complete draw against its tickets, and returns the place of every ticket: Places[i] belongs to
// sequence number i+1. The error is a *Mismatch if one published value contradicts another.
func Verify(p Published, tickets []Hash) ([]int64, error) {
	if p.Root == nil || p.EarlyTickets == nil {
		return nil, errors.New("root and early_tickets are not published yet: they follow when early joining closes")
	}
	if p.Key == nil || p.Seed == nil {
		return nil, errors.New("key and seed are not published yet: they follow at the start of the sale")
	}
	if want := KeyHash(*p.Key); want != p.KeySHA256 {
		return nil, &Mismatch{"key_sha256", p.KeySHA256.String(), want.String()}
	}
	if *p.EarlyTickets != int64(len(tickets)) {
		return nil, &Mismatch{"early_tickets", fmt.Sprint(*p.EarlyTickets), fmt.Sprint(len(tickets))}
	}
	tree, err := NewTree(tickets)
	if err != nil {
		return nil, err
	}
	root, err := tree.Root()
	if err != nil {
		return nil, err
	}
	if root != *p.Root {
		return nil, &Mismatch{"root", p.Root.String(), root.String()}
	}
	seed := Seed(*p.Key, root, p.Beacon)
	if seed != *p.Seed {
		return nil, &Mismatch{"seed", p.Seed.String(), seed.String()}
	}
	return places(seed, int64(len(tickets)))
}

// places returns the places of n tickets.
func places(seed Hash, n int64) ([]int64, error) {
	if n == 0 {
		return nil, nil
	}
	permutation, err := NewPermutation(seed, n)
	if err != nil {
		return nil, err
	}
	all := make([]int64, n)
	for i := range all {
		if all[i], err = permutation.Place(int64(i) + 1); err != nil {
			return nil, err
		}
	}
	return all, nil
}
