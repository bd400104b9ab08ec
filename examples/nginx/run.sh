#!/usr/bin/env bash
# nginx before a small service, with a node and its Redis. `run.sh --once` ends by itself; PORT=8000 chooses nginx's port.
. "$(dirname "$0")/../common.sh"
need nginx
start_redis_and_node
start_service
proxy=${PORT:-$(free_port)}
# The ports of nginx.conf, and places where anybody may write.
places='client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;'
sed -e "s|127.0.0.1:8000|127.0.0.1:$proxy|; s|127.0.0.1:8080|127.0.0.1:$http|; s|127.0.0.1:9000|127.0.0.1:$service|" \
    -e "s|^http {|http { access_log off; $places|" "$here/nginx.conf" > "$work/nginx.conf"
start nginx "$proxy" nginx -p "$work" -e stderr -c "$work/nginx.conf" -g 'daemon off; pid nginx.pid;'
try "http://127.0.0.1:$proxy/"
stay "$@"
