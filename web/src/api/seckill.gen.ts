// Generated from services/seckill/api/openapi.yaml by `npm run types`. Do not edit.

export interface paths {
    "/v1/time": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the time that decides whether a sale is open; never cached */
        get: operations["getTime"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/config": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get what the pages show and offer in this installation */
        get: operations["getConfig"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List open sales, ordered by end, then scheduled ones, ordered by start */
        get: operations["listActivities"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get one sale; left may be a second old */
        get: operations["getActivity"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/room": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the state of a ticket of the waiting room */
        get: operations["getRoomTicket"];
        put?: never;
        /** Join the waiting room; joining again returns the same ticket, or a new one if that has lapsed */
        post: operations["joinRoom"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/room/draw": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the published draw of the waiting room, as far as it is published */
        get: operations["getDraw"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/room/tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the commitments of all early tickets, one on a line; 404 until early joining has closed */
        get: operations["getDrawTickets"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/captchas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Request a challenge, from 5 min before the start on; in a sale with a waiting room at admission */
        post: operations["createCaptcha"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/captchas/{captcha_id}/answers": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Answer a challenge; a wrong answer costs a new one */
        post: operations["answerCaptcha"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/paths": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Issue a path for one purchase, while the sale is open and not sold out */
        post: operations["createPath"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/paths/{path}/reservations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Reserve units by a path; posting the same path again returns the same order_sn and its present status */
        post: operations["createReservation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/reservations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the buyer's own purchases in this activity, latest first */
        get: operations["listReservations"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/reservations/{order_sn}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get the status of a purchase; only for its buyer, until 24 h after its end */
        get: operations["getReservation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/activities/{activity_id}/reservations/{order_sn}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the status of a purchase as server-sent events
         * @description `event: status` carries a Reservation, first the current one. `event: end` follows at a terminal status, or after
         *     60 s. A comment is sent every 15 s. For a terminal status the response is 204, which also keeps an EventSource
         *     from reconnecting. The ticket is part of events_url and is valid for 5 minutes.
         */
        get: operations["streamReservation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/session": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get who is signed in; never cached */
        get: operations["getSession"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/dev": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Sign in under any name; exists only if AUTH_DEV_TOKENS is set */
        post: operations["signInAsDeveloper"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/logout": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delete the session's cookie */
        post: operations["signOut"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/login": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Go to the identity provider; exists only if OIDC_ISSUER is set */
        get: operations["signIn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/auth/callback": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Come back from the identity provider */
        get: operations["finishSignIn"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dev/tokens": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Issue a development token; exists only if AUTH_DEV_TOKENS is set */
        post: operations["createDevToken"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Time: {
            /**
             * Format: int64
             * @description Redis time in ms since 1970
             */
            server_time: number;
        };
        PagesConfig: {
            /**
             * @description by an identity provider, by a user id (development), or not at all
             * @enum {string}
             */
            sign_in: "oidc" | "dev" | "none";
            payment_providers: string[];
            /**
             * @description who may replace a challenge by a proof of work; all buyers, or those with the role accessible
             * @enum {string}
             */
            captcha_work: "everyone" | "accessible";
            brand: components["schemas"]["Brand"];
            languages: string[];
            version: string;
        };
        /** @description colours such as #c4320a; an empty value means the default of the pages */
        Brand: {
            name: string;
            logo_url: string;
            accent: string;
            /** @description text on the accent */
            accent_ink: string;
            accent_dark: string;
            accent_ink_dark: string;
        };
        /** @enum {string} */
        ActivityState: "scheduled" | "open" | "paused" | "ended";
        Activity: {
            activity_id: string;
            title: string;
            state: components["schemas"]["ActivityState"];
            /** Format: date-time */
            starts_at: string;
            /** Format: date-time */
            ends_at: string;
            /**
             * Format: date-time
             * @description Redis time; it decides whether the sale is open
             */
            server_time: string;
            /**
             * Format: int64
             * @description units that one buyer may hold
             */
            per_user_limit: number;
            /**
             * Format: int64
             * @description the pay window in seconds
             */
            pay_within_s: number;
            /** @description buyers need the pass of a solved challenge for a path */
            captcha: boolean;
            /**
             * Format: date-time
             * @description present if there is a challenge and no waiting room; with one, challenges open at admission
             */
            captcha_opens_at?: string;
            /** @description buyers need an admitted ticket of the waiting room for a path */
            waiting_room: boolean;
            /**
             * Format: date-time
             * @description present if there is a waiting room
             */
            room_opens_at?: string;
            description: string;
            /** @description http or https, or a path of this site; empty without a picture */
            image_url: string;
            /**
             * Format: date-time
             * @description present if no unit is left and unpaid ones exist, which may come back until then
             */
            may_return_until?: string;
            items: components["schemas"]["ActivityItem"][];
            seller?: components["schemas"]["Seller"];
            notice?: components["schemas"]["Notice"];
        };
        /** @description what the merchant states about itself; absent without a profile */
        Seller: {
            name: string;
            /** @description https; empty for none */
            terms_url: string;
            /** @description it may have several lines; empty for none */
            delivery: string;
        };
        /** @description a line of the merchant to the buyers of this sale; absent without one */
        Notice: {
            text: string;
            /**
             * Format: date-time
             * @description the time at which the merchant wrote it
             */
            at: string;
        };
        ActivityItem: {
            sku_id: string;
            name: string;
            /** @description as that of the sale */
            image_url: string;
            /**
             * Format: int64
             * @description minor units
             */
            price: number;
            /**
             * Format: int64
             * @description minor units; 0 if unknown
             */
            list_price: number;
            currency: string;
            /**
             * Format: int64
             * @description decimals of the currency by ISO 4217: amount / 10^currency_digits
             */
            currency_digits: number;
            /** Format: int64 */
            total: number;
            /**
             * Format: int64
             * @description may be below 0 after a repair
             */
            left: number;
            paused: boolean;
        };
        ActivityList: {
            items: components["schemas"]["Activity"][];
            next_cursor?: string;
        };
        PathRequest: {
            /** @description required if the activity has a waiting room */
            room_ticket?: string;
            /** @description required if the activity has a challenge */
            captcha_pass?: string;
        };
        /** @enum {string} */
        CaptchaKind: "pow" | "click" | "provider";
        CaptchaRequest: {
            /**
             * @description pow, which needs no pointer and no sight, or the kind of the activity, the default
             * @enum {string}
             */
            kind?: "pow" | "click" | "provider";
            /** @description required if the activity has a waiting room */
            room_ticket?: string;
        };
        /** @description pow instead of the kind of the activity is returned while the provider does not respond */
        Captcha: {
            captcha_id: string;
            kind: components["schemas"]["CaptchaKind"];
            /** Format: date-time */
            expires_at: string;
            pow?: components["schemas"]["CaptchaPow"];
            click?: components["schemas"]["CaptchaClick"];
            widget?: components["schemas"]["CaptchaWidget"];
        };
        /** @description find the number from 0 to max_number for which SHA-256 of salt and its decimal digits is challenge */
        CaptchaPow: {
            algorithm: string;
            challenge: string;
            salt: string;
            signature: string;
            /** Format: int64 */
            max_number: number;
        };
        /** @description click the characters of the prompt in the image, in their order */
        CaptchaClick: {
            /** @description data URL */
            image: string;
            /** Format: int64 */
            width: number;
            /** Format: int64 */
            height: number;
            /** @description data URL of a picture */
            prompt: string;
            /** Format: int64 */
            prompt_width: number;
            /** Format: int64 */
            prompt_height: number;
            /**
             * Format: int64
             * @description of characters to click
             */
            count: number;
        };
        CaptchaPoint: {
            /** Format: int64 */
            x: number;
            /** Format: int64 */
            y: number;
        };
        CaptchaWidget: {
            /** @enum {string} */
            provider: "turnstile" | "hcaptcha";
            site_key: string;
            action: string;
        };
        CaptchaAnswer: {
            /** @description of pow: base64 of the JSON {algorithm, challenge, number, salt, signature} */
            payload?: string;
            /** @description of click: the places of the characters in the order of the prompt, in pixels from the left upper corner */
            points?: components["schemas"]["CaptchaPoint"][];
            /** @description of provider: the token of the widget */
            token?: string;
        };
        CaptchaPass: {
            captcha_pass: string;
            /** Format: date-time */
            expires_at: string;
        };
        RoomTicket: {
            ticket: string;
        };
        RoomState: {
            /**
             * @description early gets its place by lot at the start; admitted may take paths for a minute, then it lapses
             * @enum {string}
             */
            state: "early" | "waiting" | "admitted" | "lapsed";
            /**
             * Format: int64
             * @description 1 is admitted first; absent while unknown
             */
            place?: number;
            /**
             * Format: int64
             * @description places that are admitted before this one
             */
            ahead?: number;
            /**
             * Format: int64
             * @description seconds until it is admitted, or early until the start
             */
            estimate_s?: number;
            /**
             * Format: date-time
             * @description of admitted: the end of its turn, later by each pause of the sale and each outage of Redis, and at the latest the end of the sale; absent where the place was admitted without Redis, and does not lapse until it is back
             */
            admitted_until?: string;
            proof?: components["schemas"]["RoomProof"];
            draw: components["schemas"]["Draw"];
        };
        /**
         * @description inclusion proof (RFC 6962) of an early ticket, once the root is published; see docs/draw.md. It is absent while the
         *     tickets are not readable. A commitment of zeros is a ticket that the system lost before the draw
         */
        RoomProof: {
            /** Format: int64 */
            sequence: number;
            commitment: string;
            path: string[];
        };
        /**
         * @description key_sha256 from the opening of the room on; root and early_tickets once early joining has closed, a minute before
         *     the start; beacon, if there is one, from 45 s before the start; key and seed from the start on
         */
        Draw: {
            activity_id: string;
            key_sha256: string;
            root?: string;
            /** Format: int64 */
            early_tickets?: number;
            beacon?: string;
            key?: string;
            seed?: string;
            tickets_url?: string;
        };
        Path: {
            path: string;
            order_sn: string;
            /** Format: date-time */
            expires_at: string;
        };
        ReservationRequest: {
            /** @description one line per SKU */
            lines: {
                sku_id: string;
                /** Format: int64 */
                qty: number;
            }[];
        };
        /**
         * @description only rises: queued < created < paid or closed; failed is terminal too; paid becomes closed if the payment is refunded
         * @enum {string}
         */
        Status: "queued" | "created" | "paid" | "closed" | "failed";
        ReservationAccepted: {
            order_sn: string;
            status: components["schemas"]["Status"];
            result_url: string;
            events_url: string;
        };
        Reservation: {
            order_sn: string;
            activity_id: string;
            status: components["schemas"]["Status"];
            lines: components["schemas"]["Line"][];
            /**
             * Format: date-time
             * @description when the units were reserved; absent if the gate was rebuilt since
             */
            created_at?: string;
            /** @description with a new ticket of 5 minutes */
            events_url: string;
            /** @description of failed: sold_out, limit_reached, expired, system; of closed: expired, cancelled, rejected, refunded */
            reason?: string;
            /**
             * Format: date-time
             * @description end of the pay window
             */
            expires_at?: string;
            /** @description present once the order exists */
            order_url?: string;
        };
        Line: {
            sku_id: string;
            /** Format: int64 */
            qty: number;
        };
        ReservationList: {
            items: components["schemas"]["Reservation"][];
            next_cursor?: string;
            /**
             * Format: int64
             * @description How many of the buyer's orders may still be cancelled or expire before the buyer cannot buy for a while. Absent if any number may, and while the sale goes on without Redis
             */
            cancellations_left?: number;
            /**
             * Format: date-time
             * @description Until then the buyer cannot buy, because too many orders were cancelled or expired. Absent otherwise
             */
            barred_until?: string;
        };
        Session: {
            signed_in: boolean;
            user_id?: string;
            roles?: ("merchant" | "operator" | "accessible")[];
            merchant_id?: string;
            /** Format: date-time */
            expires_at?: string;
        };
        SignedOut: {
            /** @description where the browser goes next; a path */
            next: string;
        };
        DevTokenRequest: {
            user_id: string;
            roles?: ("merchant" | "operator" | "accessible")[];
            /** @description the merchant that the caller acts for; by default none */
            merchant_id?: string;
        };
        DevToken: {
            token: string;
        };
        /** @description RFC 9457; some codes have additional members */
        Problem: {
            type: string;
            title: string;
            status: number;
            detail?: string;
            code: string;
            trace_id?: string;
            errors?: {
                field: string;
                message: string;
            }[];
        } & {
            [key: string]: unknown;
        };
    };
    responses: {
        /** @description If-None-Match has the ETag of the present answer */
        NotModified: {
            headers: {
                ETag?: string;
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description invalid_request (errors) */
        InvalidRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unauthenticated */
        Unauthenticated: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description forbidden; the request comes from another site */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description not_found; also for a resource of another user */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large */
        BodyTooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description unsupported_media_type */
        UnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description rate_limited (violated_policies); for a path also room_waiting (ahead, estimate_s) */
        RateLimited: {
            headers: {
                "Retry-After"?: number;
                /** @description one item for each limit of the route */
                RateLimit?: string;
                /** @description one item for each limit of the route */
                "RateLimit-Policy"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description internal */
        Failed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /**
         * @description gate_unavailable, journal_full, overloaded or unavailable. After gate_unavailable the outcome of a purchase may
         *     be unknown. The others took nothing in this call
         */
        Unavailable: {
            headers: {
                "Retry-After"?: number;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        ActivityID: string;
        OrderSN: string;
        Limit: number;
        Cursor: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getTime: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The time */
            200: {
                headers: {
                    "Cache-Control"?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "server_time": 1763891234567
                     *     }
                     */
                    "application/json": components["schemas"]["Time"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getConfig: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The configuration of the pages */
            200: {
                headers: {
                    "Cache-Control"?: string;
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "sign_in": "dev",
                     *       "payment_providers": [
                     *         "sandbox"
                     *       ],
                     *       "captcha_work": "everyone",
                     *       "brand": {
                     *         "name": "Flashsale",
                     *         "logo_url": "",
                     *         "accent": "",
                     *         "accent_ink": "",
                     *         "accent_dark": "",
                     *         "accent_ink_dark": ""
                     *       },
                     *       "languages": [
                     *         "en",
                     *         "zh"
                     *       ],
                     *       "version": "v1.0.0"
                     *     }
                     */
                    "application/json": components["schemas"]["PagesConfig"];
                };
            };
            304: components["responses"]["NotModified"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listActivities: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of sales */
            200: {
                headers: {
                    "Cache-Control"?: string;
                    /** @description of the page without server_time */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActivityList"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["InvalidRequest"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getActivity: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The sale */
            200: {
                headers: {
                    "Cache-Control"?: string;
                    /** @description of the sale without server_time */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "activity_id": "1",
                     *       "title": "Autumn sale",
                     *       "state": "open",
                     *       "starts_at": "2026-11-21T10:00:00Z",
                     *       "ends_at": "2026-11-21T12:00:00Z",
                     *       "server_time": "2026-11-21T10:00:01.25Z",
                     *       "per_user_limit": 1,
                     *       "pay_within_s": 900,
                     *       "captcha": false,
                     *       "waiting_room": false,
                     *       "description": "Wireless, black or white",
                     *       "image_url": "https://img.example.com/headphones.jpg",
                     *       "items": [
                     *         {
                     *           "sku_id": "1",
                     *           "name": "Headphones",
                     *           "image_url": "",
                     *           "price": 9900,
                     *           "list_price": 19900,
                     *           "currency": "EUR",
                     *           "currency_digits": 2,
                     *           "total": 100,
                     *           "left": 42,
                     *           "paused": false
                     *         }
                     *       ]
                     *     }
                     */
                    "application/json": components["schemas"]["Activity"];
                };
            };
            304: components["responses"]["NotModified"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getRoomTicket: {
        parameters: {
            query: {
                ticket: string;
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The state of the ticket */
            200: {
                headers: {
                    /** @description seconds until the next call; it grows with the queue */
                    "Retry-After"?: number;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "state": "waiting",
                     *       "place": 4200,
                     *       "ahead": 3199,
                     *       "estimate_s": 4,
                     *       "draw": {
                     *         "activity_id": "1",
                     *         "key_sha256": "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["RoomState"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            /** @description room_required (the ticket is not one of this buyer and activity) */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at) */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    joinRoom: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The ticket */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "ticket": "4711.AAECAwQFBgcICQoLDA0ODw.q83vEjRWeJCrze8SNFZ4kA"
                     *     }
                     */
                    "application/json": components["schemas"]["RoomTicket"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at), activity_ended */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getDraw: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The draw */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Draw"];
                };
            };
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at) */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getDrawTickets: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description 64 hexadecimal digits for each ticket, in the order of the sequence numbers */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at) */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createCaptcha: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["CaptchaRequest"];
            };
        };
        responses: {
            /** @description The challenge; it takes one answer */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "captcha_id": "Tq0a3pRZKn0Wn5lq6qcmH3m8b2rI8s0d9m1qg3cHXkq1c2hX2Z5H0w",
                     *       "kind": "pow",
                     *       "expires_at": "2026-11-21T10:02:01Z",
                     *       "pow": {
                     *         "algorithm": "SHA-256",
                     *         "challenge": "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
                     *         "salt": "0011223344556677889900aa?expires=1763719321&id=Tq0a&",
                     *         "signature": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
                     *         "max_number": 50000
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Captcha"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            /** @description room_required (the activity has a waiting room, and the ticket is missing, wrong or lapsed), forbidden (a proof of work instead of the activity's kind, see captcha_work of /v1/config) */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at), activity_ended */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    answerCaptcha: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                captcha_id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "points": [
                 *         {
                 *           "x": 40,
                 *           "y": 61
                 *         },
                 *         {
                 *           "x": 251,
                 *           "y": 120
                 *         },
                 *         {
                 *           "x": 148,
                 *           "y": 37
                 *         },
                 *         {
                 *           "x": 96,
                 *           "y": 170
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["CaptchaAnswer"];
            };
        };
        responses: {
            /** @description The pass for paths of this buyer in this activity */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "captcha_pass": "AQAAAABpIHWZq83vEjRWeJCrze8SNFZ4kA",
                     *       "expires_at": "2026-11-21T10:10:01Z"
                     *     }
                     */
                    "application/json": components["schemas"]["CaptchaPass"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            /** @description captcha_wrong (also for a challenge that has expired or was answered before) */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            404: components["responses"]["NotFound"];
            /** @description activity_not_started (starts_at, opens_at), activity_ended */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createPath: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                /** @example {} */
                "application/json": components["schemas"]["PathRequest"];
            };
        };
        responses: {
            /** @description The path */
            201: {
                headers: {
                    /** @example "path";r=199;t=0 */
                    RateLimit?: string;
                    /** @example "path";q=200;w=1 */
                    "RateLimit-Policy"?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "path": "AQNlQ0YzHBgqAAAAAGkgP2SzmRmZ9M0l3F1yF2f4o7dP",
                     *       "order_sn": "244837465837465837",
                     *       "expires_at": "2026-11-21T10:05:01Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Path"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            /**
             * @description room_required (the activity has a waiting room, and the ticket is missing, wrong or lapsed), captcha_required
             *     (it has a challenge, and the pass is missing, wrong or expired)
             */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            404: components["responses"]["NotFound"];
            /**
             * @description activity_not_started (starts_at), activity_ended, activity_paused, sold_out (may_return_until),
             *     limit_reached (order_sn and order_sns of what the buyer holds, or barred_until)
             */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    createReservation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                path: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "lines": [
                 *         {
                 *           "sku_id": "1",
                 *           "qty": 1
                 *         }
                 *       ]
                 *     }
                 */
                "application/json": components["schemas"]["ReservationRequest"];
            };
        };
        responses: {
            /** @description Queued, or the present status of the purchase that this path has made before */
            202: {
                headers: {
                    /** @description the result_url */
                    Location?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "order_sn": "244837465837465837",
                     *       "status": "queued",
                     *       "result_url": "/v1/activities/1/reservations/244837465837465837",
                     *       "events_url": "/v1/activities/1/reservations/244837465837465837/events?ticket=AQAAAABpID9kAjQy"
                     *     }
                     */
                    "application/json": components["schemas"]["ReservationAccepted"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            /**
             * @description path_invalid (malformed, another buyer's, another activity's) or path_expired (over 5 min old, or issued
             *     before the buyer's latest purchase in this activity)
             */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            404: components["responses"]["NotFound"];
            /**
             * @description activity_not_started (starts_at), activity_ended, activity_paused, sold_out (may_return_until),
             *     limit_reached (order_sn, order_sns; barred_until while the buyer's allowance is over, because too many
             *     orders were cancelled or expired), idempotency_conflict (this path was used with other lines)
             */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    listReservations: {
        parameters: {
            query?: {
                limit?: components["parameters"]["Limit"];
                cursor?: components["parameters"]["Cursor"];
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of purchases */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReservationList"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getReservation: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The purchase */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "order_sn": "244837465837465837",
                     *       "activity_id": "1",
                     *       "status": "created",
                     *       "lines": [
                     *         {
                     *           "sku_id": "1",
                     *           "qty": 1
                     *         }
                     *       ],
                     *       "created_at": "2026-11-21T10:00:02Z",
                     *       "expires_at": "2026-11-21T10:15:02Z",
                     *       "order_url": "/v1/orders/244837465837465837",
                     *       "events_url": "/v1/activities/1/reservations/244837465837465837/events?ticket=AQAAAABpID9kAjQy"
                     *     }
                     */
                    "application/json": components["schemas"]["Reservation"];
                };
            };
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    streamReservation: {
        parameters: {
            query?: {
                ticket?: string;
            };
            header?: never;
            path: {
                activity_id: components["parameters"]["ActivityID"];
                order_sn: components["parameters"]["OrderSN"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The stream */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example event: status
                     *     data: {"order_sn":"244837465837465837","activity_id":"1","status":"queued"}
                     */
                    "text/event-stream": string;
                };
            };
            /** @description The status is terminal; there will be no events */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidRequest"];
            401: components["responses"]["Unauthenticated"];
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Failed"];
        };
    };
    getSession: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The session of the cookie */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "signed_in": true,
                     *       "user_id": "42",
                     *       "roles": [
                     *         "merchant"
                     *       ],
                     *       "merchant_id": "m1",
                     *       "expires_at": "2026-11-21T22:00:00Z"
                     *     }
                     */
                    "application/json": components["schemas"]["Session"];
                };
            };
            default: components["responses"]["Failed"];
        };
    };
    signInAsDeveloper: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user_id": "42",
                 *       "roles": [
                 *         "merchant"
                 *       ],
                 *       "merchant_id": "m1"
                 *     }
                 */
                "application/json": components["schemas"]["DevTokenRequest"];
            };
        };
        responses: {
            /** @description Signed in */
            204: {
                headers: {
                    "Set-Cookie"?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["InvalidRequest"];
            403: components["responses"]["Forbidden"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            default: components["responses"]["Failed"];
        };
    };
    signOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Signed out */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "next": "/"
                     *     }
                     */
                    "application/json": components["schemas"]["SignedOut"];
                };
            };
            403: components["responses"]["Forbidden"];
            default: components["responses"]["Failed"];
        };
    };
    signIn: {
        parameters: {
            query?: {
                /** @description the path of this site to go to after the sign-in; anything else means / */
                next?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description To the provider */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            /** @description A page stating that the provider does not respond or that many buyers sign in */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Failed"];
        };
    };
    finishSignIn: {
        parameters: {
            query?: {
                state?: string;
                code?: string;
                error?: string;
                error_description?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Signed in; to the path of the login */
            302: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A page stating that the sign-in took too long, was used before or belongs to another browser */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A page stating that the provider refused */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            404: components["responses"]["NotFound"];
            429: components["responses"]["RateLimited"];
            /** @description A page stating that the provider does not respond or that many buyers sign in */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            default: components["responses"]["Failed"];
        };
    };
    createDevToken: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "user_id": "42",
                 *       "roles": [
                 *         "merchant"
                 *       ],
                 *       "merchant_id": "m1"
                 *     }
                 */
                "application/json": components["schemas"]["DevTokenRequest"];
            };
        };
        responses: {
            /** @description The token */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DevToken"];
                };
            };
            400: components["responses"]["InvalidRequest"];
            404: components["responses"]["NotFound"];
            413: components["responses"]["BodyTooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            default: components["responses"]["Failed"];
        };
    };
}
