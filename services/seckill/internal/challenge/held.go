package challenge

import (
	"slices"
	"sync"
	"time"

	"flashsale.internal/pkg/contract"
)

// Bounds of the images of a process that were given and not answered. A pod gives some 90 images a second, and an
// image can be answered for two minutes. So it takes 2,700 accounts at 36 addresses to keep a pod without images.
const (
	// userImages is for one user: the image on the page, one that another pod has checked, and two lost by reloading.
	userImages = 4
	// addressImages is for one address: 200 buyers of an office or a carrier, of whom half have lost an image.
	addressImages = 300
)

// held are the images that were given and neither answered nor expired. An answer that another process checks ends none
// here.
type held struct {
	mu        sync.Mutex
	users     map[string][]*hold // at most userImages each
	addresses map[string]int
	byID      map[string]*hold
	given     []*hold // by expiry, with those that were answered
}

// hold is an image of a user, given once its id is known.
type hold struct {
	id, user, address string // address: "" if it is not known
	until             time.Time
	ended             bool
}

func newHeld() *held {
	return &held{users: map[string][]*hold{}, addresses: map[string]int{}, byID: map[string]*hold{}}
}

// begin counts an image of a user at an address, "" if it is not known, until it is answered or that time comes. It
// refuses a user with too many, and one at an address with too many, which does not count against the user.
func (h *held) begin(now, until time.Time, userID, address string) (*hold, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.given) > 0 && !now.Before(h.given[0].until) {
		h.remove(h.given[0])
		h.given = h.given[1:]
	}
	if mine := h.users[userID]; len(mine) >= userImages {
		return nil, contract.Refuse(contract.CodeRateLimited, "too many images wait for an answer of this user").
			After(mine[0].until.Sub(now))
	}
	if address != "" && h.addresses[address] >= addressImages {
		return nil, uncounted{contract.Refuse(contract.CodeRateLimited,
			"too many images wait for answers from this address; request a challenge again").After(noImage)}
	}
	of := &hold{user: userID, address: address, until: until}
	h.users[userID] = append(h.users[userID], of)
	if address != "" {
		h.addresses[address]++
	}
	return of, nil
}

// name sets the id of the challenge whose image is given.
func (h *held) name(of *hold, challengeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of.id = challengeID
	h.byID[challengeID] = of
	h.given = append(h.given, of)
}

// end ends an image that is not given.
func (h *held) end(of *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(of)
}

// answered ends the image of a challenge, if this process has given it.
func (h *held) answered(challengeID string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if of := h.byID[challengeID]; of != nil {
		h.remove(of)
	}
}

func (h *held) remove(of *hold) {
	if of.ended {
		return
	}
	of.ended = true
	delete(h.byID, of.id)
	mine := slices.DeleteFunc(h.users[of.user], func(x *hold) bool { return x == of })
	if h.users[of.user] = mine; len(mine) == 0 {
		delete(h.users, of.user)
	}
	if of.address == "" {
		return
	}
	if h.addresses[of.address]--; h.addresses[of.address] == 0 {
		delete(h.addresses, of.address)
	}
}
