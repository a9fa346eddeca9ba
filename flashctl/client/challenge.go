package client

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"flashsale.internal/pkg/contract"
)

// Challenge is a challenge. Pow is set if it is a proof of work, Click if it is an image.
type Challenge struct {
	ChallengeID string                 `json:"captcha_id"`
	Kind        contract.ChallengeKind `json:"kind"`
	ExpiresAt   time.Time              `json:"expires_at"`
	Pow         *ProofOfWork           `json:"pow"`
	Click       *Image                 `json:"click"`
}

// Image is solved by the places of the characters that its prompt shows.
type Image struct {
	Image  string `json:"image"` // a data URL, as Prompt
	Prompt string `json:"prompt"`
}

// Point is a place in an image, in pixels from its left upper corner.
type Point struct {
	X int64 `json:"x"`
	Y int64 `json:"y"`
}

// ProofOfWork is solved by the number up to MaxNumber for which SHA-256 of Salt and the number is Challenge.
type ProofOfWork struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
	MaxNumber int64  `json:"max_number"`
}

// NewChallenge requests a challenge of this kind, "" for that of the activity, with a ticket of the waiting room, ""
// for none.
func (c *Caller) NewChallenge(
	ctx context.Context, activityID string, kind contract.ChallengeKind, ticket string,
) (out Challenge, err error) {
	err = c.do(ctx, call{
		method: http.MethodPost, url: c.challenges(activityID),
		body: struct {
			Kind       contract.ChallengeKind `json:"kind,omitempty"`
			RoomTicket string                 `json:"room_ticket,omitempty"`
		}{kind, ticket},
	}, &out)
	return out, err
}

// AnswerPow answers a proof of work and returns the pass.
func (c *Caller) AnswerPow(ctx context.Context, activityID, challengeID, payload string) (pass string, err error) {
	return c.answer(ctx, activityID, challengeID, struct {
		Payload string `json:"payload"`
	}{payload})
}

// AnswerImage answers an image and returns the pass.
func (c *Caller) AnswerImage(
	ctx context.Context, activityID, challengeID string, points []Point,
) (pass string, err error) {
	return c.answer(ctx, activityID, challengeID, struct {
		Points []Point `json:"points"`
	}{points})
}

// answer makes one call, as a challenge takes one answer.
func (c *Caller) answer(ctx context.Context, activityID, challengeID string, body any) (pass string, err error) {
	var out struct {
		Pass string `json:"captcha_pass"`
	}
	err = c.do(ctx, call{
		method: http.MethodPost, url: c.challenges(activityID) + "/" + url.PathEscape(challengeID) + "/answers",
		body: body, once: true,
	}, &out)
	return out.Pass, err
}

// PassByWork solves a proof of work and returns the pass for paths of this buyer in this activity.
func (c *Caller) PassByWork(ctx context.Context, activityID, ticket string) (pass string, err error) {
	challenge, err := c.NewChallenge(ctx, activityID, contract.ChallengePow, ticket)
	if err != nil {
		return "", err
	}
	if challenge.Pow == nil {
		return "", fmt.Errorf("challenge of kind %q instead of a proof of work", challenge.Kind)
	}
	payload, err := challenge.Pow.Solve(ctx)
	if err != nil {
		return "", err
	}
	return c.AnswerPow(ctx, activityID, challenge.ChallengeID, payload)
}

// Solve computes the answer. It stops when ctx ends.
func (p *ProofOfWork) Solve(ctx context.Context) (payload string, err error) {
	want, err := hex.DecodeString(p.Challenge)
	if err != nil || len(want) != sha256.Size || p.Algorithm != "SHA-256" {
		return "", errors.New("proof of work of an unknown form")
	}
	text := []byte(p.Salt)
	for n := int64(0); n <= p.MaxNumber; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		text = strconv.AppendInt(text[:len(p.Salt)], n, 10)
		if sha256.Sum256(text) != [sha256.Size]byte(want) {
			continue
		}
		raw, err := json.Marshal(struct {
			Algorithm string `json:"algorithm"`
			Challenge string `json:"challenge"`
			Number    int64  `json:"number"`
			Salt      string `json:"salt"`
			Signature string `json:"signature"`
		}{p.Algorithm, p.Challenge, n, p.Salt, p.Signature})
		return base64.StdEncoding.EncodeToString(raw), err
	}
	return "", errors.New("proof of work without a solution")
}

func (c *Caller) challenges(activityID string) string {
	return c.origins.Seckill + "/v1/activities/" + url.PathEscape(activityID) + "/captchas"
}
