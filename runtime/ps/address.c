/* address: see the header. */
#include "runtime/ps/address.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define PROTOCOL "tcp://"

static bool is_port(const char *text) {
    size_t n = strspn(text, "0123456789");
    int port = 0;
    if (n == 0 || n > 5 || text[n] != 0) return false;
    sscanf(text, "%d", &port);
    return port > 0 && port < 65536;
}

/* A name, four numbers, or six to eight hexadecimal ones in brackets: nothing that ZeroMQ would take for something else, as "eth0;host". */
static bool is_host(const char *text, size_t n) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    if (n > 2 && text[0] == '[' && text[n - 1] == ']') return strspn(text + 1, "0123456789abcdefABCDEF:.") == n - 2;
    return n > 0 && n < 256 && strspn(text, letters) >= n;
}

static dt_status *parse(const char *text, bool listens, char *address) {
    const char *host = strncmp(text, PROTOCOL, strlen(PROTOCOL)) == 0 ? text + strlen(PROTOCOL) : text, *colon = strrchr(host, ':');
    if (colon != NULL) {
        size_t n = (size_t)(colon - host);
        bool any_host = listens && n == 1 && *host == '*', any_port = listens && strcmp(colon, ":*") == 0;
        if ((any_host || is_host(host, n)) && (any_port || is_port(colon + 1))) {
            snprintf(address, DT_PS_ADDRESS_BYTES, PROTOCOL "%s", host);
            return NULL;
        }
    }
    return dt_error(DT_INVALID_ARGUMENT, "%s is no address to %s: host:7000, 10.0.0.7:7000 or [::1]:7000%s is one", text,
                    listens ? "listen on" : "connect to", listens ? ", *:7000 on all networks, and 127.0.0.1:* with any free port" : "");
}

dt_status *dt_ps_address_to_listen(const char *text, char *address) { return parse(text, true, address); }
dt_status *dt_ps_address_to_connect(const char *text, char *address) { return parse(text, false, address); }

/* IPv4 first: who connects to a name may have no other. */
static const struct addrinfo *choose(const struct addrinfo *found) {
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next)
        if (one->ai_family == AF_INET) return one;
    return found;
}

void dt_ps_address_resolve(char *address) {
    const char *text = dt_ps_address_text(address), *colon = strrchr(text, ':');
    const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char host[256], port[16], number[INET6_ADDRSTRLEN];
    if (*text == '[' || *text == '*') return;
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    snprintf(port, sizeof port, "%s", colon + 1);
    if (getaddrinfo(host, NULL, &wanted, &found) != 0) return;
    const struct addrinfo *one = choose(found);
    bool is_known = getnameinfo(one->ai_addr, one->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) == 0;
    const char *form = one->ai_family == AF_INET6 ? PROTOCOL "[%s]:%s" : PROTOCOL "%s:%s";
    if (is_known) snprintf(address, DT_PS_ADDRESS_BYTES, form, number, port);
    freeaddrinfo(found);
}

bool dt_ps_address_is_loopback(const char *address) {
    const char *host = dt_ps_address_text(address);
    int a, b, c, d, n = 0;
    if (strncmp(host, "localhost:", 10) == 0 || strncmp(host, "[::1]:", 6) == 0) return true;
    return sscanf(host, "%d.%d.%d.%d%n", &a, &b, &c, &d, &n) == 4 && host[n] == ':' && a == 127;
}

const char *dt_ps_address_text(const char *address) { return address + strlen(PROTOCOL); }
